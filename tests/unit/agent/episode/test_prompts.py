"""Prompts and how output is cut."""

from __future__ import annotations

import pytest
import yaml
from swerl_agent.episode import PromptError, Prompts
from swerl_agent.episode.prompts import Output
from swerl_agent.tasks import TaskView
from swerl_api import ObservationSpec

TEMPLATES = {
    "system_template": "system",
    "instance_template": "{{ task }}",
    "format_error_template": "{{ actions|length }}",
    "action_observation_template": "{{ output.returncode }} {{ output.output }}",
}


def observation(text: str, *, hidden: int = 0) -> str:
    observation = ObservationSpec()
    output = Output.of(text, returncode=3, omitted=hidden, observation=observation, timed_out=False, timeout=180)
    return Prompts.default().observation(output, observation)


def test_short_output_is_shown_whole() -> None:
    text = "a" * 9_999
    assert observation(text) == f"<returncode>3</returncode>\n<output>\n{text}</output>"


@pytest.mark.parametrize(("length", "elided"), [(10_000, 0), (12_345, 2_345)])
def test_output_from_the_limit_on_is_cut(length: int, elided: int) -> None:
    text = "h" * 5_000 + "m" * (length - 10_000) + "t" * 5_000
    observed = observation(text)
    assert f"<output_head>\n{'h' * 5_000}\n</output_head>" in observed
    assert f"\n{elided} characters elided\n" in observed
    assert f"<output_tail>\n{'t' * 5_000}\n</output_tail>" in observed
    assert "<warning>" in observed


def test_bytes_cut_in_the_sandbox_count_as_elided() -> None:
    assert "100000000 characters elided" in observation("x" * 10_000, hidden=100_000_000)


@pytest.mark.parametrize(
    ("remaining", "text"),
    [(19, "You have 19 turns left."), (1, "only 1 turn left"), (0, "")],
)
def test_reminder(remaining: int, text: str) -> None:
    reminder = Prompts.default().reminder(remaining)
    assert text in reminder
    assert bool(reminder) == bool(text)


def test_built_in_prompts_name_task_limits_and_submission() -> None:
    view = TaskView("o__r-1", "o/r", "0" * 40, "1", "It breaks {{ here }}.", "image")
    text = Prompts.default().instance(view, workdir="/testbed", step_limit=7)
    assert "It breaks {{ here }}." in text
    assert "7 turns" in text
    assert "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached" in text


def test_empty_reminder_means_none() -> None:
    assert Prompts.from_yaml(yaml.safe_dump({"agent": TEMPLATES})).reminder(5) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"system_template": None}, "lack agent.system_template"),
        ({"instance_template": "{{ taks }}"}, "agent.instance_template does not render"),
        ({"action_observation_template": "{% if %}"}, "agent.action_observation_template does not render"),
    ],
)
def test_invalid_templates_are_refused_when_read(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(PromptError, match=message):
        Prompts.from_yaml(yaml.safe_dump({"agent": TEMPLATES | changes}))


@pytest.mark.parametrize("text", ["a: [", "[]", "agent: 3"])
def test_invalid_documents_are_refused(text: str) -> None:
    with pytest.raises(PromptError):
        Prompts.from_yaml(text)


def test_template_of_unknown_name_is_refused() -> None:
    with pytest.raises(PromptError, match=r"unknown agent\.observation_template; known are system_template"):
        Prompts.from_yaml(yaml.safe_dump({"agent": TEMPLATES | {"observation_template": "x"}}))


def test_keys_of_other_readers_are_unchanged() -> None:
    document = {"agent": TEMPLATES | {"step_limit": 20}, "model": {"model_name": ""}}
    assert Prompts.from_yaml(yaml.safe_dump(document)).system() == "system"


def test_template_that_breaks_at_run_time_is_named() -> None:
    with pytest.raises(PromptError, match=r"agent\.instance_template does not render: ZeroDivisionError"):
        Prompts.from_yaml(yaml.safe_dump({"agent": TEMPLATES | {"instance_template": "{{ 1 // 0 }}"}}))
