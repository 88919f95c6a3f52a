"""What users of a cluster rely on: exec with its exit code, names, Services, Jobs, user namespaces, logs."""

from __future__ import annotations

import base64
import os
import socket
import ssl
from pathlib import Path

import pytest

from cluster import process
from cluster.layout import Cluster
from tests.control_plane.cluster.probe_namespace import ProbeNamespace, cluster_command, eventually


@pytest.fixture(scope="module")
def server(probes: ProbeNamespace) -> str:
    """Name of a serving Pod behind the Service `web`."""
    service = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    probes.apply(
        probes.pod("server", "serve", "8080", labels={"app": "server"}),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
    )
    probes.wait_running("server")
    return "server"


def test_exec_returns_the_exit_code_and_the_input(probes: ProbeNamespace, server: str) -> None:
    assert probes.exec(server, "exit", "7").returncode == 7
    assert probes.exec(server, "cat", stdin="over the wire\n").stdout == "over the wire\n"


def test_daemons_and_pods_share_the_processor_as_groups(running: Cluster) -> None:
    for name in ("apiserver", "kubelet", "containerd"):
        daemon = process.running(running, name)
        assert daemon is not None
        lines = Path(f"/proc/{daemon.pid}/cgroup").read_text().splitlines()
        groups = {
            controller: path
            for _, names, path in (line.split(":", 2) for line in lines)
            for controller in names.split(",")
        }
        assert groups.get("cpu", groups.get("")) == f"/{running.label}/daemons", groups


def test_exec_speaks_the_websocket_protocol_v5(running: Cluster, probes: ProbeNamespace, server: str) -> None:
    tls = ssl.create_default_context(cafile=str(running.pki / "ca.crt"))
    tls.load_cert_chain(running.pki / "admin.crt", running.pki / "admin.key")
    path = f"/api/v1/namespaces/{probes.namespace}/pods/{server}/exec?command=/probe&command=exit&command=0&stdout=true"
    key = base64.b64encode(os.urandom(16)).decode()
    headers = ("Host: swerl", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
               f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Protocol: v5.channel.k8s.io")  # fmt: skip
    with (
        socket.create_connection((running.node_ip, 6443), timeout=20) as plain,
        tls.wrap_socket(plain, server_hostname=running.node_ip) as wire,
    ):
        wire.sendall("\r\n".join((f"GET {path} HTTP/1.1", *headers, "", "")).encode())
        answer = wire.recv(4096).decode(errors="replace")
    assert answer.startswith("HTTP/1.1 101")
    assert "v5.channel.k8s.io" in answer


def test_service_is_found_by_name_and_answers(probes: ProbeNamespace, server: str) -> None:
    assert probes.exec(server, "lookup", f"web.{probes.namespace}.svc.cluster.local").returncode == 0
    services = {"by name": "tcp:web:80", "apiserver": "tcp:kubernetes.default:443"}
    eventually(lambda: all(probes.reachability(server, services).values()), "both Services answer", 15)


def test_machine_reaches_pods_and_services(probes: ProbeNamespace, server: str) -> None:
    addresses = {"Pod": (probes.get("pod", server)["status"]["podIP"], 8080),
                 "Service": (probes.get("service", "web")["spec"]["clusterIP"], 80)}  # fmt: skip
    for kind, address in addresses.items():
        with socket.create_connection(address, timeout=20) as connection:
            assert connection.recv(64).startswith(b"served by"), kind


def test_job_runs_to_its_end(probes: ProbeNamespace) -> None:
    pod = probes.pod("once", "lookup", "kubernetes.default.svc.cluster.local", restartPolicy="Never")
    spec = {"backoffLimit": 0, "template": {"spec": pod["spec"]}}
    probes.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": spec})
    eventually(lambda: probes.get("job", "once").get("status", {}).get("succeeded") == 1, "the Job succeeds", 90)
    assert probes.kubectl("logs", "job/once").stdout.strip()


def test_user_namespaces_map_root_to_no_user_of_the_host(probes: ProbeNamespace) -> None:
    probes.apply(probes.pod("mapped", "sleep", "600", hostUsers=False))
    probes.wait_running("mapped")
    inside, outside, count = probes.exec("mapped", "cat", "/proc/self/uid_map").stdout.split()
    assert inside == "0"
    assert int(outside) >= 65536
    assert int(count) == 65536


def test_node_is_listed_as_ready(probes: ProbeNamespace) -> None:
    listed = probes.kubectl("get", "nodes")
    assert listed.returncode == 0, listed.stderr
    assert " Ready " in listed.stdout


def test_status_is_readable_and_healthy(running: Cluster) -> None:
    output = cluster_command("status").stdout
    assert "healthy" in output
    assert "NOT" not in output
    assert Path(running.kubeconfig).is_file()
    assert str(running.kubeconfig) in output


def test_folder_of_a_claim_is_deleted_with_it(running: Cluster, probes: ProbeNamespace) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    probes.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "kept"}, "spec": claim})
    eventually(lambda: probes.get("pvc", "kept")["status"].get("phase") == "Bound", "the claim is bound", 15)
    folder = running.volumes / probes.namespace / "kept"
    pod = probes.pod("writer", "sleep", "60")
    pod["spec"]["volumes"] = [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "kept", "mountPath": "/kept"}]
    (folder / "seen").write_text("by the Pod, too\n")
    probes.apply(pod)
    probes.wait_running("writer")
    assert probes.exec("writer", "cat", "/kept/seen").stdout == "by the Pod, too\n"
    probes.kubectl("delete", "pod", "writer", "--grace-period=0", "--force")
    probes.kubectl("delete", "pvc", "kept")
    eventually(lambda: not folder.exists(), "the folder is removed", 30)
    eventually(lambda: probes.namespace not in probes.kubectl("get", "pv").stdout, "and the volume with it", 10)
