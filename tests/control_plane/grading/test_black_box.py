"""Black-box agents in real sandboxes: the unmodified mini-swe-agent, and programs with real clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from swerl_agent.episode import Episode, EpisodeRequest, HFTokenizer, write_artifacts
from swerl_agent.evaluation import MINI_SWE_AGENT, open_agent
from swerl_agent.gateway import Gateway, run_black_box
from swerl_agent.grading import Grader
from swerl_agent.sandbox import Session
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from cluster import layout
from tests.agent_spec import agent_spec
from tests.client_programs import FOLDER, PROGRAMS, ClientProgram, answers, check_one_sequence, packed_clients
from tests.scripted_engine import Script

from ...unit.agent.gateway.conftest import CharacterEncoder, with_tools
from .test_episode import FIX, in_a_pod, session, tokenizer

__all__ = ["session", "tokenizer", "with_tools"]
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


async def install_programs(session: Session, folder: Path) -> None:
    """Put the programs and their clients for the image's Python into `folder` of the sandbox."""
    asked = await session.run("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'", timeout=60)
    await session.write_file(f"{folder}/clients.tar.gz", packed_clients(asked.stdout.decode().strip()))
    for program in PROGRAMS:
        await session.write_file(f"{folder}/{program}.py", (FOLDER / f"{program}.py").read_bytes())
    unpacked = await session.run("tar xzf clients.tar.gz && rm clients.tar.gz", timeout=60, cwd=str(folder))
    assert unpacked.exit_code == 0, unpacked.stderr


async def test_client_program_in_a_pod_leaves_one_training_sequence_and_the_fix(
    client: KubeClient, namespace: str, task: Task, with_tools: HFTokenizer, grader: Grader
) -> None:
    """Anthropic Messages and OpenAI Responses, streamed; nothing of the programs knows of swe-rl."""
    cluster = layout.find(layout.cluster_name(), layout.swerl_home())
    assert cluster, "this test needs the address of the local cluster's host"
    sampled, folder = answers("cat calc.py", FIX, "git diff"), Path("/opt/agent")
    async with in_a_pod(client, namespace, task, egress="allow") as session:
        await install_programs(session, folder)
        for program in PROGRAMS:
            engine = Script(CharacterEncoder(with_tools), sampled)  # type: ignore[arg-type]
            request = EpisodeRequest(task, group="g", index=0, temperature=1.0)
            async with Gateway(engine, with_tools, host=cluster.host_ip) as gateway:
                agent = ClientProgram(program, folder, "python3", str(folder))
                episode = await run_black_box(request, session, gateway, agent, agent_spec())
            assert (episode.exit_status, episode.error) == ("submitted", None)
            assert "def clamp" in engine.read[1] and "+    return min(high" in engine.read[3]
            check_one_sequence(episode, with_tools, sampled)
            assert episode.patch
            assert (await session.run("git stash -q", timeout=60)).exit_code == 0
    verdict = await grader.grade(task, episode.patch)
    assert verdict.resolved, verdict
