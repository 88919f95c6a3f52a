"""mini-swe-agent, unmodified, on sandboxes: its environment's contract, and its agent at work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel, make_output
from swerl_agent.sandbox import SandboxLost

from tests.control_plane.exec.conftest import IMAGE, SMALL
from tests.control_plane.operator_process import Operator

CLASS = "swerl_agent.integrations.mini_swe_agent.SandboxEnvironment"
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def make(namespace: str, kubeconfig: str, operator: Operator) -> Iterator[Make]:
    made = []

    def make(**fields: Any) -> Any:
        common = {"environment_class": CLASS, "image": IMAGE, "namespace": namespace, "kubeconfig": kubeconfig}
        made.append(get_environment({**common, "sandbox": {"resources": SMALL}, **fields}))
        return made[-1]

    yield make
    for environment in made:
        environment.cleanup()


@pytest.fixture(scope="module")
def plain(make: Make) -> Any:
    return make()


def test_a_command_is_observed(plain: Any) -> None:
    done = plain.execute({"command": "echo one; echo two >&2; echo three; exit 42"})
    assert done == {"output": "one\ntwo\nthree\n", "returncode": 42, "exception_info": ""}


def test_the_working_directory(plain: Any, make: Make) -> None:
    assert plain.execute({"command": "pwd"})["output"] == "/\n"
    assert plain.execute({"command": "pwd"}, cwd="/tmp")["output"] == "/tmp\n"
    assert make(cwd="/usr").execute({"command": "pwd"})["output"] == "/usr\n"


def test_variables_are_set_and_forwarded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HOST", "host value")
    monkeypatch.setenv("BOTH", "host")
    environment = make(env={"BOTH": "config", "OWN": "o'wn"}, forward_env=["FROM_HOST", "BOTH", "NOT_THERE"])
    done = environment.execute({"command": 'echo "[$FROM_HOST] [$BOTH] [$OWN] [$NOT_THERE]"'})
    assert done["output"] == "[host value] [config] [o'wn] []\n"


def test_a_command_that_takes_too_long(plain: Any) -> None:
    done = plain.execute({"command": "echo begun; sleep 60"}, timeout=1)
    assert done["output"] == "begun\n" and done["returncode"] == -1
    assert "timed out" in done["exception_info"] and done["extra"]["exception_type"] == "TimeoutExpired"
    assert plain.execute({"command": "echo goes on"})["output"] == "goes on\n"


def test_what_ends_the_episode(plain: Any) -> None:
    said = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    with pytest.raises(Submitted) as caught:
        plain.execute({"command": f"echo {said}; echo the patch"})
    assert caught.value.messages[0]["extra"] == {"exit_status": "Submitted", "submission": "the patch\n"}
    assert plain.execute({"command": f"echo {said}; exit 1"})["returncode"] == 1
    assert plain.execute({"command": f"echo first; echo {said}"})["returncode"] == 0


def test_what_templates_and_trajectories_see(plain: Any) -> None:
    assert plain.get_template_vars(cwd="/here")["cwd"] == "/here"
    assert plain.get_template_vars()["image"] == IMAGE and plain.get_template_vars()["system"] == "Linux"
    assert plain.serialize()["info"]["config"]["environment_type"] == CLASS


def test_a_lost_sandbox_is_no_observation(make: Make) -> None:
    environment = make()
    environment.sandbox.release()
    with pytest.raises(SandboxLost):
        environment.execute({"command": "true"})


def test_the_agent_works_in_the_sandbox(make: Make) -> None:
    commands = [
        "mkdir /work && cd /work && git init -q && echo 'wrong' >answer && git add -A",
        "cd /work && sed -i s/wrong/right/ answer && git diff",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cd /work && git diff",
    ]
    model = DeterministicModel(outputs=[make_output("so:", [{"command": command}]) for command in commands])
    agent = DefaultAgent(model, make(), system_template="You work.", instance_template="{{ task }}")
    ended = agent.run("Write what is right.")
    assert ended["exit_status"] == "Submitted"
    assert "-wrong\n+right" in ended["submission"]
