"""mini-swe-agent, unmodified, on sandboxes: its environment's contract, and its agent at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

import minisweagent
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.environments.docker import DockerEnvironmentConfig
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel, make_output
from swerl_agent.integrations.mini_swe_agent import SandboxEnvironmentConfig
from swerl_agent.sandbox import SandboxLost

from tests.control_plane.exec.conftest import IMAGE, SMALL
from tests.control_plane.operator_process import Operator

CLASS = "swerl_agent.integrations.mini_swe_agent.SandboxEnvironment"
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def make(namespace: str, kubeconfig: str, operator: Operator) -> Iterator[Make]:
    environments: list[Any] = []

    def make(**fields: Any) -> Any:
        common = {"environment_class": CLASS, "image": IMAGE, "namespace": namespace, "kubeconfig": kubeconfig}
        environments.append(get_environment({**common, "sandbox": {"resources": SMALL}, **fields}))
        return environments[-1]

    yield make
    for environment in environments:
        environment.cleanup()


@pytest.fixture(scope="module")
def plain(make: Make) -> Any:
    return make()


def test_output_of_a_command_is_observed(plain: Any) -> None:
    done = plain.execute({"command": "echo one; echo two >&2; echo three; exit 42"})
    assert done == {"output": "one\ntwo\nthree\n", "returncode": 42, "exception_info": ""}


def test_working_directory(plain: Any, make: Make) -> None:
    assert plain.execute({"command": "pwd"})["output"] == "/\n"
    assert plain.execute({"command": "pwd"}, cwd="/tmp")["output"] == "/tmp\n"
    assert make(cwd="/usr").execute({"command": "pwd"})["output"] == "/usr\n"


def test_variables_are_set_and_forwarded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HOST", "host value")
    monkeypatch.setenv("BOTH", "host")
    environment = make(env={"BOTH": "config", "OWN": "o'wn"}, forward_env=["FROM_HOST", "BOTH", "NOT_THERE"])
    done = environment.execute({"command": 'echo "[$FROM_HOST] [$BOTH] [$OWN] [$NOT_THERE]"'})
    assert done["output"] == "[host value] [config] [o'wn] []\n"


def test_command_that_takes_too_long(plain: Any) -> None:
    done = plain.execute({"command": "echo begun; sleep 60"}, timeout=1)
    assert done["output"] == "begun\n" and done["returncode"] == -1
    assert "timed out" in done["exception_info"] and done["extra"]["exception_type"] == "TimeoutExpired"
    assert plain.execute({"command": "echo goes on"})["output"] == "goes on\n"


def test_shell_features_work(plain: Any) -> None:
    assert plain.execute({"command": "echo -e 'one\\ntwo' | grep two; echo $(echo inner)"})["output"] == "two\ninner\n"
    missing = plain.execute({"command": "no_such_program"})
    assert missing["returncode"] == 127 and "no_such_program" in missing["output"]
    assert plain.execute({"command": "exit 1"}) == {"output": "", "returncode": 1, "exception_info": ""}


def test_interpreter_of_its_benchmarks(make: Make) -> None:
    path = {"PATH": "/opt/tool/bin:/usr/bin:/bin"}  # of the image: a login shell would have that of /etc/profile
    environment = make(
        interpreter=["bash", "-c"], env={"BASH_ENV": "/root/.bashrc"}, sandbox={"resources": SMALL, "env": path}
    )
    assert environment.execute({"command": "echo 'FROM_RC=yes' >/root/.bashrc"})["returncode"] == 0
    done = environment.execute({"command": "echo $0 $PATH $FROM_RC; shopt -q login_shell"})
    assert done["output"] == f"bash {path['PATH']} yes\n" and done["returncode"] == 1
    assert make(interpreter=["python3", "-c"]).execute({"command": "print(6 * 7)"})["output"] == "42\n"


def test_files_stay_and_a_changed_folder_does_not(plain: Any) -> None:
    plain.execute({"command": "cd /tmp && echo kept >kept"})
    assert plain.execute({"command": "pwd; cat /tmp/kept"})["output"] == "/\nkept\n"


def test_defaults_are_those_of_docker() -> None:
    sandbox_config, docker_config = (
        config(image="python:3.12") for config in (SandboxEnvironmentConfig, DockerEnvironmentConfig)
    )
    for name in DockerEnvironmentConfig.model_fields:
        assert getattr(sandbox_config, name) == getattr(docker_config, name), name


def test_environments_are_isolated_from_each_other(plain: Any, make: Make) -> None:
    second = make()
    plain.execute({"command": "echo private >/tmp/marker; python3 -m http.server 18080 >/dev/null 2>&1 &"})
    address = plain.execute({"command": "hostname -i"})["output"].strip()
    fetch = "import urllib.request as r; print(r.urlopen('http://{}:18080/tmp/marker', timeout=3).read().decode())"
    command = f'for i in 1 2 3 4 5 6 7 8 9; do python3 -c "{fetch}" 2>/dev/null && break; sleep 0.3; done'
    assert plain.execute({"command": command.format("127.0.0.1")})["output"] == "private\n\n"
    reached = second.execute({"command": command.format(address)}, timeout=60)
    assert "private" not in reached["output"]
    assert second.execute({"command": "test -e /tmp/marker"})["returncode"] == 1


def test_environment_ends_with_its_lifetime(make: Make) -> None:
    environment = make(sandbox={"resources": SMALL, "lifetimeSeconds": 30})
    assert environment.execute({"command": "echo lives"})["output"] == "lives\n"
    with pytest.raises(SandboxLost):
        for _ in range(30):
            environment.execute({"command": "sleep 5"})


def test_submission_ends_the_episode(plain: Any) -> None:
    submission = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    with pytest.raises(Submitted) as caught:
        plain.execute({"command": f"echo {submission}; echo the patch"})
    assert caught.value.messages[0]["extra"] == {"exit_status": "Submitted", "submission": "the patch\n"}
    assert plain.execute({"command": f"echo {submission}; exit 1"})["returncode"] == 1
    assert plain.execute({"command": f"echo first; echo {submission}"})["returncode"] == 0


def test_template_variables_and_configuration_are_complete(plain: Any) -> None:
    assert plain.get_template_vars(cwd="/here")["cwd"] == "/here"
    assert plain.get_template_vars()["image"] == IMAGE and plain.get_template_vars()["system"] == "Linux"
    assert plain.serialize()["info"]["config"]["environment_type"] == CLASS


def test_lost_sandbox_is_no_observation(make: Make) -> None:
    environment = make()
    environment.sandbox.release()
    with pytest.raises(SandboxLost):
        environment.execute({"command": "true"})


def test_agent_works_in_the_sandbox(make: Make) -> None:
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


def test_mini_swe_agent_benchmark_runner_works_on_a_dataset(
    namespace: str, kubeconfig: str, operator: Operator, tmp_path: Path
) -> None:
    """`mini-extra swebench`, which takes the image from each instance and knows Docker only."""
    (tmp_path / "dataset").mkdir()
    instances = [{"instance_id": name, "problem_statement": "Do it.", "image_name": IMAGE} for name in ("one", "two")]
    (tmp_path / "dataset" / "data.jsonl").write_text("\n".join(map(json.dumps, instances)))
    commands = ["echo work >/tmp/file", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat /tmp/file"]
    outputs = [make_output("so:", [{"command": command}]) for command in commands]
    sandbox = {"namespace": namespace, "kubeconfig": kubeconfig, "sandbox": {"resources": SMALL}}
    shipped = Path(minisweagent.__file__).parent / "config" / "benchmarks" / "swebench.yaml"
    section = yaml.safe_load(shipped.read_text())["environment"] | {"cwd": "/"}  # this image has no /testbed
    config = {
        "agent": {"system_template": "You work.", "instance_template": "{{ task }}"},
        "environment": section | sandbox,
        "model": {"model_class": "deterministic", "model_name": "scripted", "outputs": outputs},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    arguments = ["--subset", tmp_path / "dataset", "--split", "train", "-c", tmp_path / "config.yaml", "-o", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "swerl_agent.integrations.mini_swe_agent", "swebench", *map(str, arguments)],
        env=os.environ | {"HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    patches = json.loads((tmp_path / "preds.json").read_text())
    assert {name: patch["model_patch"] for name, patch in patches.items()} == {"one": "work\n", "two": "work\n"}
