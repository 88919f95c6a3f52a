"""A cluster without KubeRay, and without the chart: an API server of its own, which has only our CRDs."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.operator_process import Operator
from tests.ports import free_port

from .conftest import ROOT, Body, JobNamespace

TOKEN = "test-token"


@pytest.fixture(scope="module")
def cluster_without_kuberay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobNamespace]:
    """etcd and kube-apiserver on ports of their own, gone afterwards."""
    home = tmp_path_factory.mktemp("bare")
    subprocess.run(["openssl", "genrsa", "-out", home / "sa.key", "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", home / "sa.key", "-pubout", "-out", home / "sa.pub"], check=True)
    (home / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
    store, peer, port = free_port(), free_port(), free_port()
    etcd = [_program("etcd"), f"--data-dir={home / 'etcd'}", "--unsafe-no-fsync"]
    for name, value in (("client", store), ("peer", peer)):
        etcd.append(f"--listen-{name}-urls=http://127.0.0.1:{value}")
    etcd.append(f"--advertise-client-urls=http://127.0.0.1:{store}")
    server = {
        "etcd-servers": f"http://127.0.0.1:{store}",
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": home / "certs",
        "token-auth-file": home / "tokens.csv",
        "service-account-key-file": home / "sa.pub",
        "service-account-signing-key-file": home / "sa.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": "10.97.0.0/24",
        "authorization-mode": "RBAC",
    }
    commands = [etcd, [_program("kube-apiserver"), *(f"--{name}={value}" for name, value in server.items())]]
    processes = []
    try:
        for command in commands:
            log = (home / f"{Path(command[0]).name}.log").open("wb")
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        yield _ready(JobNamespace(str(_kubeconfig(home, port)), "default"), home)
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(timeout=60)


def _program(name: str) -> str:
    """`name` on the PATH, else beside the kubectl that is (where the local cluster's build puts it)."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "kubectl is not on the PATH"
    return shutil.which(name) or str(Path(kubectl).resolve().parent / name)


def _kubeconfig(home: Path, port: int) -> Path:
    path = home / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
clusters: [{{name: bare, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: {TOKEN}}}}}]
contexts: [{{name: bare, context: {{cluster: bare, user: admin}}}}]
current-context: bare
"""
    )
    return path


def _ready(kube: JobNamespace, home: Path) -> JobNamespace:
    deadline = time.monotonic() + 120
    while kube.kubectl("get", "--raw", "/readyz", check=False) != "ok":
        assert time.monotonic() < deadline, (home / "kube-apiserver.log").read_text()[-4000:]
        time.sleep(0.5)
    return kube


def test_operator_waits_for_crds_and_names_what_is_missing(
    cluster_without_kuberay: JobNamespace, job: Body, tmp_path: Path
) -> None:
    with Operator(cluster_without_kuberay.kubeconfig, tmp_path / "log", namespaces="default") as operator:
        cluster_without_kuberay.until(lambda: operator.log.read_text(), lambda log: "CRDs not installed" in log)
        cluster_without_kuberay.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        operator.until_leading()
        job["metadata"]["namespace"] = "default"
        cluster_without_kuberay.apply(job)
        name = job["metadata"]["name"]
        found = cluster_without_kuberay.until_condition(name, "Validated", "KubeRayMissing")
        assert "helm upgrade --install kuberay-operator" in found["message"]
        assert "ClusterRole 'swe-rl-driver' for drivers does not exist" in found["message"]
        assert cluster_without_kuberay.status(name)["phase"] == "Blocked" and operator.alive
