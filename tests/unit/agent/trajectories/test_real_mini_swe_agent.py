"""Trajectories that the real mini-swe-agent writes, in each of its three ways to call the shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import test_models as models
from swerl_agent.trajectories.importing import import_trajectories
from swerl_agent.trajectories.stored import StoredEpisode, episode_sets

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo the patch"


def as_text(number: int, command: str) -> dict[str, Any]:
    return dict(models.make_output(f"I look.\n\n```mswea_bash_command\n{command}\n```", [{"command": command}], 0.5))


def as_call(number: int, command: str) -> dict[str, Any]:
    name = f"call_{number}"
    call = {"id": name, "function": {"name": "bash", "arguments": f'{{"command": "{command}"}}'}}
    return dict(models.make_toolcall_output("I look.", [call], [{"command": command, "tool_call_id": name}]))


def as_item(number: int, command: str) -> dict[str, Any]:
    action = {"command": command, "tool_call_id": f"call_{number}"}
    return dict(models.make_response_api_output("I look.", [action]))


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        (models.DeterministicModel, as_text),
        (models.DeterministicToolcallModel, as_call),
        (models.DeterministicResponseAPIToolcallModel, as_item),
    ],
)
def test_its_trajectories_are_imported(
    tmp_path: Path, model: Any, answer: Callable[[int, str], dict[str, Any]]
) -> None:
    outputs = [answer(number, command) for number, command in enumerate(("echo one", "false", SUBMIT))]
    agent = DefaultAgent(
        model(outputs=outputs),
        LocalEnvironment(cwd=str(tmp_path)),
        system_template="You are helpful.",
        instance_template="Fix it: {{ task }}",
        output_path=tmp_path / "runs/kit__kit-1.traj.json",
    )
    assert agent.run("the kit")["exit_status"] == "Submitted"
    assert import_trajectories([tmp_path / "runs"], tmp_path / "out", on_error=pytest.fail).episodes == 1
    (one,) = episode_sets(tmp_path / "out")[0].episodes()
    assert isinstance(one, StoredEpisode)
    assert [said for _, _, said in one.trajectory.opening] == ["You are helpful.", "Fix it: the kit"]
    turns = one.trajectory.turns
    assert [[command.action for command in turn.commands] for turn in turns] == [["echo one"], ["false"], [SUBMIT]]
    assert [turn.commands[0].exit_code for turn in turns[:2]] == [0, 1]
    assert turns[0].commands[0].output == "one\n" and all("I look." in turn.content for turn in turns)
    assert (one.patch, one.info["exit_status"]) == ("the patch\n", "Submitted")
    assert one.info["usage"]["cost_usd"] == agent.cost > 0
