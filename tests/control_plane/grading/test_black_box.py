"""The unmodified mini-swe-agent behind the gateway, in a real sandbox."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from swerl_agent.episode import Episode, EpisodeRequest, HFTokenizer, write_artifacts
from swerl_agent.evaluation import MINI_SWE_AGENT, open_agent
from swerl_agent.grading import Grader
from swerl_agent.sandbox import Session
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script

from .test_episode import FIX, session, tokenizer

__all__ = ["session", "tokenizer"]
PROTOCOL = "mini-swe-agent-2"
SUBMIT = ["git diff -- calc.py > patch.txt", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"]


async def attempt(task: Task, session: Session, tokenizer: HFTokenizer, *commands: str) -> tuple[Episode, Script]:
    script = Script(tokenizer, [f"So:\n\n```mswea_bash_command\n{command}\n```" for command in commands])
    spec = agent_spec(
        kind=MINI_SWE_AGENT,
        protocol=PROTOCOL,
        context_tokens=200_000,
        step_limit=len(commands),
        command_timeout_seconds=10,
    )
    async with open_agent(spec, script, tokenizer, None) as agent:
        return await agent.run_episode(EpisodeRequest(task, group="g", index=0, temperature=1.0), session), script


async def test_fix_of_the_episode_is_resolved_by_grading(
    task: Task, session: Session, tokenizer: HFTokenizer, grader: Grader, tmp_path: Path
) -> None:
    episode, script = await attempt(task, session, tokenizer, "cat calc.py", FIX, *SUBMIT)
    assert (episode.exit_status, episode.patch_source) == ("submitted", "submission")
    assert "def clamp" in script.read[1]
    assert [len(segment.answers) for segment in episode.segments] == [4]
    assert episode.patch and "patch.txt" not in episode.patch
    verdict = await grader.grade(task, episode.patch)
    assert verdict.resolved, verdict
    folder = write_artifacts(tmp_path, episode, verdict)
    assert len(json.loads((folder / "traj.json").read_text())["step_debug"]) == 4


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo begun; sleep 1000", "timed out after 10 seconds"),
        ("(setsid sleep 300 &) ; echo started", "started"),
        ("exit 7", "<returncode>7</returncode>"),
    ],
)
async def test_episode_continues_and_its_changes_are_the_patch(
    task: Task, session: Session, tokenizer: HFTokenizer, command: str, shown: str
) -> None:
    episode, script = await attempt(task, session, tokenizer, command, FIX)
    assert shown in script.read[1]
    assert (episode.exit_status, episode.patch_source) == ("max_steps", "git_diff_fallback")


async def test_deleted_pod_is_an_infrastructure_error(
    client: KubeClient, namespace: str, task: Task, session: Session, tokenizer: HFTokenizer
) -> None:
    running = asyncio.create_task(attempt(task, session, tokenizer, "sleep 9", *SUBMIT))
    await asyncio.sleep(3)
    for pod in await client.list("v1", "pods", namespace):
        await client.delete("v1", "pods", namespace, pod["metadata"]["name"], grace_seconds=0)
    episode, script = await running
    assert episode.infrastructure_error
    assert len(script.read) == 1
