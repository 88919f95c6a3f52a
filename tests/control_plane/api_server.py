"""An API server of its own, with etcd and without nodes, controllers and KubeRay."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port

TOKEN = "test-token"


@contextmanager
def api_server(home: Path) -> Iterator[str]:
    """Kubeconfig of an administrator; etcd and kube-apiserver use free ports and are gone afterwards."""
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
        kubeconfig = str(_kubeconfig(home, port))
        _until_ready(kubeconfig, home)
        yield kubeconfig
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


def _until_ready(kubeconfig: str, home: Path) -> None:
    command, deadline = ["kubectl", "--kubeconfig", kubeconfig, "get", "--raw", "/readyz"], time.monotonic() + 120
    while subprocess.run(command, capture_output=True, text=True, timeout=120).stdout != "ok":
        assert time.monotonic() < deadline, (home / "kube-apiserver.log").read_text()[-4000:]
        time.sleep(0.5)
