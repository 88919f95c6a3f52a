"""Egress internet on the wire of the local cluster: a public address answers, nothing of the cluster does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from swerl_agent.sandbox.pod import ready
from swerl_api.names import METRICS_PORT, RAY_AGENT_PORT, ROUTER_PORT
from swerl_operator.context import Settings
from swerl_operator.ray.cluster import DASHBOARD_PORT, GCS_PORT, RAY_METRICS_PORT
from swerl_operator.ray.network_policy import OPERATOR_LABELS

from cluster import layout
from tests.control_plane import pod_network
from tests.ports import free_port

from .conftest import IMAGE, Body, User, inside

PUBLIC = "203.0.113.80"  # of documentation, which no network routes; the node answers there during a test
Targets = dict[str, tuple[str, int]]  # address and port by name
# Prints those of its arguments, each an address and a port, that can be reached.
CONNECTS = """
for target; do
  (timeout 5 bash -c ': <>"/dev/tcp/${0%:*}/${0##*:}"' "$target" 2>/dev/null && echo "$target") &
done
wait
"""
LISTENS = """
import socket, sys, time
kept = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
time.sleep(3600)
"""
RAY = {"swerl.dev/job": "demo", "ray.io/cluster": "demo-1"}
# Pods of ours, by name: labels and ports. No policy protects them here: what holds is that of the sandbox.
OURS: dict[str, tuple[dict[str, str], dict[str, int]]] = {
    "head": (
        RAY | {"ray.io/node-type": "head", "swerl.dev/role": "driver"},
        {"gcs": GCS_PORT, "dashboard": DASHBOARD_PORT, "client": 10001, "metrics": METRICS_PORT, "router": ROUTER_PORT},
    ),
    "engine": (
        RAY | {"ray.io/node-type": "worker", "swerl.dev/role": "engine"},
        {"sglang": 31000, "agent": RAY_AGENT_PORT, "metrics": RAY_METRICS_PORT},
    ),
    "console": (OPERATOR_LABELS | {"app.kubernetes.io/component": "console"}, {"http": 8765}),
    "operator": (OPERATOR_LABELS, {"health": Settings.health_port, "metrics": Settings.metrics_port}),
}


@pytest.fixture
def running() -> layout.Cluster:
    found = layout.find(layout.cluster_name(), layout.swerl_home())
    assert found is not None, "the local cluster runs"
    return found


@pytest.fixture
def public_port(running: layout.Cluster) -> Iterator[int]:
    """Port of a listener at PUBLIC, as if on the Internet."""
    node, port = Path("/run/netns") / running.label, free_port()
    pod_network.inside(node, "ip", "addr", "replace", f"{PUBLIC}/32", "dev", "lo")
    try:
        with pod_network.listener(node, port):
            yield port
    finally:
        pod_network.inside(node, "ip", "addr", "del", f"{PUBLIC}/32", "dev", "lo")


@pytest.fixture
async def ours(user: User) -> AsyncIterator[Targets]:
    """The ports of OURS, at the addresses of Pods and of their Services."""
    targets: Targets = {}
    for name, (labels, ports) in OURS.items():
        await user.api.create("pods", _listening_pod(user.namespace, name, labels, ports))
        service = await user.api.create("services", _service(user.namespace, name, labels, ports))
        targets |= {f"service {name} {port}": (service["spec"]["clusterIP"], number) for port, number in ports.items()}
    for name, (_, ports) in OURS.items():
        pod = await user.until(lambda name=name: user.api.get("v1", "pods", user.namespace, name), ready, 120)  # type: ignore[misc]
        targets |= {f"{name} {port}": (pod["status"]["podIP"], number) for port, number in ports.items()}
    yield targets
    for name in OURS:
        await user.api.delete("v1", "services", user.namespace, name)
        await user.api.delete("v1", "pods", user.namespace, name, grace_seconds=0)


def _listening_pod(namespace: str, name: str, labels: dict[str, str], ports: dict[str, int]) -> Body:
    container = {
        "name": name,
        "image": IMAGE,
        "command": ["python3", "-c", LISTENS, *map(str, ports.values())],
        "readinessProbe": {"tcpSocket": {"port": max(ports.values())}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def _service(namespace: str, name: str, labels: dict[str, str], ports: dict[str, int]) -> Body:
    named = [{"name": port, "port": number} for port, number in ports.items()]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": named}}


async def test_sandbox_with_the_internet_reaches_nothing_of_the_cluster(
    user: User, kubeconfig: str, running: layout.Cluster, public_port: int, ours: Targets
) -> None:
    await user.declare("cluster", egress="allow", command=["python3", "-m", "http.server", "8080"])
    await user.declare("public", egress="internet")
    for name in ("cluster", "public"):
        await user.phase(name, "Ready")
    pods = await user.pods("cluster")
    targets = ours | {
        "internet": (PUBLIC, public_port),
        "service": (running.kubernetes_ip, 443),
        "name server": (running.dns_ip, 53),
        "node": (running.node_ip, 6443),
        "machine": (running.host_ip, running.registry_port),
        "pod": (pods["swesb-cluster-0"]["status"]["podIP"], 8080),
        "metadata": ("169.254.169.254", 80),
    }
    addresses = {name: f"{host}:{port}" for name, (host, port) in targets.items()}

    async def reached(pod: str) -> set[str]:
        output = await inside(kubeconfig, user.namespace, pod, "bash", "-c", CONNECTS, "bash", *addresses.values())
        return {name for name, address in addresses.items() if address in output.split()}

    async def reached_by_cluster() -> set[str]:
        return await reached("swesb-cluster-0")

    expected = {"internet", "service", "name server", "node", "pod", *ours}
    await user.until(reached_by_cluster, lambda found: expected <= found, 60)  # a Service takes a moment
    assert await reached("swesb-public-0") == {"internet"}
    for name in ("cluster", "public"):
        await user.delete(name)
