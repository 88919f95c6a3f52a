"""A real operator process that serves one namespace, and a job to change one thing of."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.operator_process import Operator

ROOT = Path(__file__).resolve().parents[3]
# Any image with `sh`; it stands for data and trainer alike where no driver needs to run.
IMAGE = os.environ.get("SWERL_TEST_IMAGE", "registry.swerl:5000/swe-rl/sandbox-base:latest")
Body = dict[str, Any]


class JobNamespace:
    """One namespace of one cluster, seen through kubectl; waits are bounded and show what was last seen."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    def kubectl(self, *arguments: str, body: Body | None = None, check: bool = True) -> str:
        command = ["kubectl", "--kubeconfig", self.kubeconfig, "-n", self.namespace, *arguments]
        text = json.dumps(body) if body is not None else None
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, body: Body) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", body=body)

    def names(self, kinds: str) -> list[str]:
        return self.kubectl("get", kinds, "-o", "name").split()

    def status(self, name: str, kind: str = "swerl") -> Body:
        found: Body = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        status: Body = found.get("status") or {}
        return status

    def condition(self, name: str, type: str, kind: str = "swerl") -> Body:
        found: list[Body] = [c for c in self.status(name, kind).get("conditions", []) if c["type"] == type]
        return found[0] if found else {}

    def until_condition(self, name: str, type: str, reason: str, seconds: float = 180, *, kind: str = "swerl") -> Body:
        found: Body = self.until(lambda: self.condition(name, type, kind), lambda c: c.get("reason") == reason, seconds)
        return found

    def until(self, read: Callable[[], Any], accept: Callable[[Any], bool], seconds: float = 180) -> Any:
        deadline = time.monotonic() + seconds
        while not accept(value := read()):
            assert time.monotonic() < deadline, f"after {seconds} s still {value}"
            time.sleep(0.5)
        return value


@pytest.fixture(scope="module")
def kube(kubeconfig: str, namespace: str, crds: None) -> JobNamespace:
    """The cluster with this checkout's CRDs."""
    return JobNamespace(kubeconfig, namespace)


@pytest.fixture(scope="module")
def served_namespaces(kube: JobNamespace) -> list[str]:
    """The namespaces of the release and its operator; a module may serve others too."""
    return [kube.namespace]


@pytest.fixture(scope="module")
def release(kube: JobNamespace, served_namespaces: list[str]) -> Iterator[str]:
    """The chart of this checkout for these namespaces alone, its rights without its process."""
    name = f"r{os.getpid()}-{os.urandom(2).hex()}"
    values = ["--set", "replicas=0", "--set", f"namespaces={{{','.join(served_namespaces)}}}", "--skip-crds"]
    values += ["--set", "hostPathVolumes=allow"]  # as the operator's option below
    scope = ["--kubeconfig", kube.kubeconfig, "--namespace", kube.namespace]
    subprocess.run(["helm", "install", name, str(ROOT / "charts"), *values, *scope], check=True, timeout=120)
    yield name
    subprocess.run(["helm", "uninstall", name, *scope], check=True, timeout=120)


@pytest.fixture(scope="module")
def operator(
    kube: JobNamespace, release: str, served_namespaces: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator of these namespaces, leading, with the rights of the chart and no others."""
    home = tmp_path_factory.mktemp("operator")
    config = json.loads(kube.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = kube.kubectl("create", "token", f"{release}-operator", "--duration=2h").strip()
    config["users"][0]["user"] = {"token": token}
    (home / "kubeconfig").write_text(json.dumps(config))
    options = {
        "namespaces": ",".join(served_namespaces),
        "lease_namespace": kube.namespace,
        "lease_name": f"{release}-operator",
        "driver_cluster_role": f"{release}-driver",
        "host_path_volumes": "allow",
    }
    with Operator(str(home / "kubeconfig"), home / "log", **options) as running:
        running.until_leading()
        yield running


def job_body(kube: JobNamespace, name: str) -> Body:
    """A job that needs nothing but IMAGE, small enough to be scheduled anywhere."""
    small = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    image = {"image": {"reference": IMAGE, "path": "/etc"}}
    return {
        "apiVersion": "swerl.dev/v1alpha1",
        "kind": "SweRLJob",
        "metadata": {"name": name, "namespace": kube.namespace},
        "spec": {
            "model": {"source": dict(image)},
            "tasks": {"source": dict(image)},
            "trainer": {"image": IMAGE, "sharedMemory": "64Mi", "resources": small, "headResources": small},
            "rollout": {"resources": small},
            "checkpoint": {"volume": {"hostPath": {"path": f"/tmp/{kube.namespace}"}}},
        },
    }


@pytest.fixture
def job(kube: JobNamespace, request: pytest.FixtureRequest) -> Iterator[Body]:
    """The job, to change one thing of; deleted after the test."""
    body = job_body(kube, f"j{abs(hash(request.node.name)) % 10**6}")
    yield body
    kube.kubectl("delete", "swerl", body["metadata"]["name"], "--ignore-not-found", check=False)
