"""Configurations of mini-swe-agent: what of them an episode uses."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent.episode import PROTOCOLS, HFTokenizer
from swerl_agent.integrations.mini_swe_agent_episode import MiniSweAgent
from swerl_agent.integrations.mini_swe_agent_templates import SandboxedTemplate

from tests.unit.agent.episode.conftest import repository

from .test_mini_swe_agent import FIX, SUBMIT, TEXT, Episodes, block

__all__ = ["repository"]


@pytest.fixture
def attempt(repository: Path) -> Episodes:
    return Episodes(repository)


def config(**sections: Any) -> str:
    builtin = MiniSweAgent.of(PROTOCOLS[TEXT]).config
    kept = {"agent": {"system_template": builtin["agent"]["system_template"], "instance_template": "{{ task }}"}}
    kept |= {"model": {"observation_template": "{{ output.output }}", "model_kwargs": {}}}
    return yaml.safe_dump({**kept, **{name: kept.get(name, {}) | more for name, more in sections.items()}})


def test_keys_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        MiniSweAgent.of(PROTOCOLS[TEXT], config(run={"env_startup_command": "true"}, environment={"env": {"A": "1"}}))
        assert not caplog.records
        kept = {"agent": {"step_limit": 9, "mode": "yolo"}, "model": {"model_kwargs": {"temperature": 0, "seed": 1}}}
        MiniSweAgent.of(PROTOCOLS[TEXT], config(environment={"timeout": 60}, run={"workers": 4}, other={}, **kept))
    (record,) = caplog.records
    named = "agent.step_limit, agent.mode, model.model_kwargs.temperature, environment.timeout, run.workers, other"
    assert sorted(record.getMessage().partition("effect: ")[2].split(", ")) == sorted(named.split(", "))


async def test_startup_command_runs_before_the_agent(attempt: Episodes, plain: HFTokenizer) -> None:
    attempt.config = config(run={"env_startup_command": "echo {{ instance_id }} > started.txt"})
    episode = await attempt(plain, *map(block, ["cat started.txt", FIX, *SUBMIT]))
    assert (episode.exit_status, episode.turns) == ("submitted", 4)
    assert "kit__kit-1" in attempt.engine.read[1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo no; exit 3", "run.env_startup_command failed with exit code 3: no"),
        ("echo {{ nope }}", "run.env_startup_command does not render: UndefinedError"),
    ],
)
async def test_startup_command_that_fails_ends_the_episode(
    attempt: Episodes, plain: HFTokenizer, command: str, message: str
) -> None:
    attempt.config = config(run={"env_startup_command": command})
    episode = await attempt(plain, block(FIX))
    assert (episode.exit_status, episode.turns) == ("prompt_failed", 0)
    assert message in str(episode.error)


@pytest.mark.parametrize(
    "place", ["agent.instance_template", "model.observation_template", "model.format_error_template"]
)
@pytest.mark.parametrize(
    "reach", ["''.__class__.__mro__", "cycler.__init__.__globals__.os.system('touch reached')", "(1).__reduce__()"]
)
async def test_template_reaches_no_internals_of_the_process(
    attempt: Episodes, plain: HFTokenizer, place: str, reach: str
) -> None:
    section, _, name = place.partition(".")
    attempt.config = config(**{section: {name: f"{{{{ {reach} }}}}"}})
    episode = await attempt(plain, "no command" if "format" in name else block(FIX), block(FIX))
    assert episode.exit_status == "prompt_failed"
    assert f"{place} does not render: SecurityError" in str(episode.error)


def test_no_module_of_the_agent_renders_outside_the_sandbox() -> None:
    import_module("minisweagent.models.utils.actions_toolcall_response")  # another test's agent may have it imported
    MiniSweAgent.of(PROTOCOLS[TEXT])
    found = [(name, vars(module)) for name, module in sys.modules.items() if name.startswith("minisweagent")]
    modules = [module for name, module in found if not name.startswith("minisweagent.run.")]  # its own commands
    rendering = [module["Template"] for module in modules if "Template" in module]
    assert len(rendering) >= 3 and set(rendering) == {SandboxedTemplate}
