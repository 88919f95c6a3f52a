"""Templates that are read without complaint and fail at some task or output."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import (
    BuiltinAgent,
    Episode,
    EpisodeRequest,
    HFTokenizer,
    Prompts,
    TokenizerError,
    write_artifacts,
)
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block

from .conftest import PLAIN, CannedSession, make_tokenizer

TASK = Task("kit__kit-1", "kit/kit", "0" * 40, "1", "It breaks.", "image", GroundTruth("", "", "", ("t",), ()))
GOOD = {
    "system_template": "system",
    "instance_template": "{{ task }}",
    "format_error_template": "again",
    "action_observation_template": "{{ output.output }}",
    "turn_reminder_template": "",
}
STEPS = [block("ls"), block("true")]


async def attempt(tokenizer: HFTokenizer, *answers: str, task: Task = TASK, **templates: str) -> Episode:
    prompts = replace(Prompts.default(), **(GOOD | templates))
    ended: list[Episode] = []
    agent = BuiltinAgent(Script(tokenizer, answers), tokenizer, prompts, agent_spec(step_limit=4))
    request = EpisodeRequest(task, group="g", index=0, temperature=1.0, on_end=ended.append)
    episode = await agent.run_episode(request, CannedSession())
    assert ended == [episode]
    return episode


@pytest.mark.parametrize(
    ("templates", "answers", "turns", "error"),
    [
        ({"instance_template": "a\n{{ 1 // (task|length - 10) }}"}, STEPS, 0,
         "agent.instance_template does not render: ZeroDivisionError: integer division or modulo by zero, in line 2: "
         "{{ 1 // (task|length - 10) }}"),
        ({"system_template": "{{ fence.nope }}"}, STEPS, 0, "agent.system_template does not render: UndefinedError"),
        ({"action_observation_template": "{% if 'true' in output.output %}\n{{ output.nope }}\n{% endif %}"}, STEPS, 2,
         "agent.action_observation_template does not render: UndefinedError: 'swerl_agent.episode.prompts.Output "
         "object' has no attribute 'nope', in line 2: {{ output.nope }}"),
        ({"format_error_template": "{{ actions[0] }}"}, [*STEPS[:1], "nothing"], 2,
         "agent.format_error_template does not render: UndefinedError"),
        ({"turn_reminder_template": "{{ 1 // (remaining - 2) }}"}, STEPS, 2,
         "agent.turn_reminder_template does not render: ZeroDivisionError"),
    ],
)  # fmt: skip
async def test_failed_prompt_ends_the_episode_and_is_named(
    tokenizer: HFTokenizer, templates: dict[str, str], answers: list[str], turns: int, error: str, tmp_path: Path
) -> None:
    episode = await attempt(tokenizer, *answers, **templates)
    assert (episode.exit_status, episode.error_code, episode.turns) == ("prompt_failed", "prompt_failed", turns)
    assert not episode.infrastructure_error and episode.patch is None
    assert episode.error is not None and episode.error.startswith(error)
    trajectory = json.loads((write_artifacts(tmp_path, episode, None) / "traj.json").read_text())
    assert (trajectory["info"]["exit_status"], trajectory["info"]["error"]) == ("prompt_failed", episode.error)
    assert [message["content"] for message in trajectory["messages"] if message["role"] == "assistant"] == answers[
        :turns
    ]
    assert len(trajectory["step_debug"]) == sum("```" in answer for answer in answers[:turns])


async def test_prompt_that_fails_at_one_task_ends_no_other_episode(tokenizer: HFTokenizer) -> None:
    template = "{{ 1 // (task|length - 10) }}"
    assert (await attempt(tokenizer, *STEPS, instance_template=template)).exit_status == "prompt_failed"
    other_task = replace(TASK, problem_statement="It breaks at 7.")
    episode = await attempt(tokenizer, *STEPS * 2, task=other_task, instance_template=template)
    assert (episode.exit_status, episode.turns) == ("max_steps", 4)


async def test_chat_template_that_fails_at_a_task_ends_its_episode(tmp_path: Path) -> None:
    refusing_template = (
        "{% if messages[0].content == 'no' %}\n{{ raise_exception('no system message') }}\n{% endif %}" + PLAIN
    )
    tokenizer = HFTokenizer(make_tokenizer(tmp_path, refusing_template))
    with pytest.raises(TokenizerError, match=r"does not render: .*no system message, in line 2: {{ raise_exception"):
        tokenizer.rendered([{"role": "system", "content": "no"}, {"role": "user", "content": "x"}])


async def test_prompts_that_the_chat_template_refuses_end_the_episode(
    tokenizer: HFTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*contents: str, role: str = "user") -> list[int]:
        raise TokenizerError("the chat template does not render: no")

    monkeypatch.setattr(tokenizer, "delta", refused)
    episode = await attempt(tokenizer, *STEPS)
    assert (episode.exit_status, episode.error) == ("prompt_failed", "the chat template does not render: no")
