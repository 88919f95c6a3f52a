"""Who may enter which Pod, asked with a driver's own token, and what the audit log says of it afterwards."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Kubectl, account_kubeconfig

Json = dict[str, Any]
PodExec = Callable[..., subprocess.CompletedProcess[str]]
KubectlAs = Callable[..., list[str]]
IMAGE = "registry.swerl:5000/swe-rl/sandbox-base:latest"
REFUSED = "drivers and the operator may exec only into sandbox Pods"
SANDBOX, DATABASE = "swesb-audited-run-0", "database-0"


@pytest.fixture(scope="module")
def pods(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    """One Pod with a sandbox's name, one with another's."""
    for name in (SANDBOX, DATABASE):
        container = {"name": "sandbox", "image": IMAGE, "command": ["sh", "-c", "while sleep 1; do echo beat; done"]}
        spec = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "containers": [container]}
        metadata = {"name": name, "namespace": namespace, "labels": {"swerl.dev/role": "sandbox"}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        assert kubectl("create", "-f", "-", stdin=json.dumps(body)).returncode == 0
    wait = ("wait", "--for=condition=Ready", "--timeout=90s", "-n", namespace)
    done = kubectl(*wait, f"pod/{SANDBOX}", f"pod/{DATABASE}")
    assert done.returncode == 0, done.stderr
    yield
    kubectl("delete", "pod", SANDBOX, DATABASE, "-n", namespace, "--wait=false")


@pytest.fixture(scope="module")
def kubectl_as(
    kubeconfig: str, kubectl: Kubectl, namespace: str, driver: str, pods: None, tmp_path_factory: pytest.TempPathFactory
) -> KubectlAs:
    """The command line of a kubectl that has nothing but the token of a service account."""

    def kubectl_command(account: str, *command: str) -> list[str]:
        config = tmp_path_factory.mktemp("account") / "kubeconfig"
        token = kubectl("create", "token", account, "-n", namespace).stdout.strip()
        config.write_text(json.dumps(account_kubeconfig(kubeconfig, token)))
        return ["kubectl", "--kubeconfig", str(config), "-n", namespace, *command]

    return kubectl_command


@pytest.fixture(scope="module")
def pod_exec(kubectl_as: KubectlAs) -> PodExec:
    """Runs a command in a Pod as a service account."""

    def run(account: str, pod: str, *command: str) -> subprocess.CompletedProcess[str]:
        full_command = kubectl_as(account, "exec", pod, "--", *command)
        return subprocess.run(full_command, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture(scope="module")
def privileged_driver(kubectl: Kubectl, namespace: str, driver: str, release: str) -> str:
    """A driver whose administrator has given it more than the chart does."""
    account = "generous-driver"
    assert kubectl("create", "serviceaccount", account, "-n", namespace).returncode == 0
    resources = "--resource=pods/attach,pods/portforward"
    kubectl("create", "role", account, "-n", namespace, "--verb=get,create", resources)
    for number, role in enumerate((f"--clusterrole={release}-driver", f"--role={account}")):
        subject = f"--serviceaccount={namespace}:{account}"
        done = kubectl("create", "rolebinding", f"{account}-{number}", "-n", namespace, role, subject)
        assert done.returncode == 0, done.stderr
    return account


def output_until(command: list[str], text: str) -> str:
    """Output of the command until it holds `words`, or until the command ends; a silent command ends after 60 s."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        alarm = threading.Timer(60, process.kill)
        alarm.start()
        try:
            output = ""
            assert process.stdout is not None
            while text not in output and (line := process.stdout.readline()):
                output += line
            return output
        finally:
            alarm.cancel()
            process.kill()


def refused_by_policy(command: list[str]) -> bool:
    """Whether the policy refuses the command within 30 s; a policy takes effect some seconds after its creation."""
    deadline = time.monotonic() + 30
    while REFUSED not in subprocess.run(command, capture_output=True, text=True, timeout=60).stderr:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


@pytest.mark.parametrize("account", ["demo-driver", "{release}-operator"])
def test_drivers_and_the_operator_enter_sandboxes_only(
    pod_exec: PodExec, kubectl_as: KubectlAs, release: str, account: str
) -> None:
    account = account.format(release=release)
    assert refused_by_policy(kubectl_as(account, "exec", DATABASE, "--", "true"))
    done = pod_exec(account, SANDBOX, "echo", "inside")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr


@pytest.mark.parametrize(
    ("command", "forbidden_resource"),
    [
        (("attach",), "pods/attach"),
        (("port-forward", ":8080"), "pods/portforward"),
        (("debug", "--image", IMAGE), "pods/ephemeralcontainers"),
    ],
    ids=["attach", "port-forward", "debug"],
)
@pytest.mark.parametrize("pod", [SANDBOX, DATABASE])
def test_driver_has_no_other_access_to_pods(
    kubectl_as: KubectlAs, command: tuple[str, ...], forbidden_resource: str, pod: str
) -> None:
    verb, *options = command
    done = subprocess.run(kubectl_as("demo-driver", verb, pod, *options), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "forbidden" in done.stderr and f'resource "{forbidden_resource}"' in done.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [(("attach",), "beat"), (("port-forward", ":8080"), "Forwarding from")],
    ids=["attach", "port-forward"],
)
def test_driver_with_portforward_rights_has_them_for_sandboxes_only(
    kubectl_as: KubectlAs, privileged_driver: str, command: tuple[str, ...], message: str
) -> None:
    verb, *options = command
    assert refused_by_policy(kubectl_as(privileged_driver, verb, DATABASE, *options))
    assert message in output_until(kubectl_as(privileged_driver, verb, SANDBOX, *options), message)


def test_other_account_opens_no_shell(pod_exec: PodExec) -> None:
    for pod in (SANDBOX, DATABASE):
        assert "cannot get resource" in pod_exec("default", pod, "true").stderr


def test_audit_log_names_user_command_and_pod(
    pod_exec: PodExec, kubectl: Kubectl, namespace: str, kubeconfig: str
) -> None:
    log = Path(kubeconfig).parent / "log" / "audit.log"
    marker = base64.b32encode(namespace.encode()).decode().strip("=")  # only this test prints it

    def audit_entry(user: str) -> Json | None:
        for line in log.read_text().splitlines():
            notes = json.loads(line).get("annotations") or {}
            found = {key.rpartition("/")[2]: value for key, value in notes.items() if "-exec-audit/" in key}
            if marker in found.get("command", "") and found["user"] == user:
                return found
        return None

    driver = f"system:serviceaccount:{namespace}:demo-driver"
    deadline = time.monotonic() + 30
    while audit_entry(driver) is None:
        assert pod_exec("demo-driver", SANDBOX, "sh", "-c", f"echo {marker}").returncode == 0
        assert time.monotonic() < deadline, f"{log} has no entry for it"
        time.sleep(0.5)
    assert audit_entry(driver) == {
        "user": driver,
        "pod": f"{namespace}/{SANDBOX}",
        "group": f"{namespace}/audited-run",
        "job": "demo",
        "command": f"sh -c echo {marker}",
    }
    assert kubectl("exec", "-n", namespace, SANDBOX, "--", "echo", marker).returncode == 0
    username = kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").stdout
    found = audit_entry(username)
    assert found is not None and "job" not in found, "a person enters too, for no job"


def test_audit_log_omits_other_pods(pod_exec: PodExec, namespace: str, kubeconfig: str) -> None:
    log = (Path(kubeconfig).parent / "log" / "audit.log").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    own_events = [event for event in events if event["objectRef"].get("namespace") == namespace]
    others = [event for event in own_events if event["objectRef"]["name"] == DATABASE]
    assert others and not [note for event in others for note in event.get("annotations", {}) if "-exec-audit/" in note]
    assert {event["objectRef"]["resource"] for event in events} == {"pods"}, "only entering Pods is written down"
