"""Ports of a Ray head, on the wire: who reaches them under the policy that the operator creates."""

from __future__ import annotations

import time

import pytest
from swerl_api import SweImageSetSpec
from swerl_operator.images.manifests import pull_pod, pull_policy
from swerl_operator.ray.network_policy import OPERATOR_LABELS, ray_policy

from tests.control_plane.cluster.probe_namespace import ProbeNamespace

PORTS = {"gcs": 6379, "dashboard": 8265, "ray metrics": 8080, "metrics": 9102, "router": 30000, "engine": 31000}
JOB = {"swerl.dev/job": "demo"}
SHARD = {"swerl.dev/role": "shard"}
RAY = JOB | {"ray.io/cluster": "demo-1"}
OPEN = "a Pod without a policy"
REACHED = {
    "worker": {*PORTS, OPEN},
    "operator": {"dashboard", "router", OPEN},
    "prometheus": {"ray metrics", "metrics", OPEN},
    "shard": {"router", OPEN},
    "sandbox": {OPEN},
    "pull": set[str](),
    "stranger": {OPEN},
}


@pytest.fixture(scope="module")
def targets(probes: ProbeNamespace, other_probes: ProbeNamespace) -> dict[str, str]:
    """The head's ports, and one of a Pod that no policy protects; the policies are in force."""
    image_set = {"metadata": {"name": "tasks", "namespace": probes.namespace, "uid": "uid-1"}}
    pull = pull_pod(image_set, SweImageSetSpec.model_validate({"images": ["a"]}), ("node", "a"))
    closing = pull_policy(image_set)
    del closing["metadata"]["ownerReferences"]  # the set does not exist
    clients = {
        "worker": RAY,
        "shard": SHARD,
        "sandbox": JOB | {"swerl.dev/role": "sandbox"},
        "pull": pull["metadata"]["labels"],
    }
    probes.apply(
        probes.pod("head", "serve", *map(str, PORTS.values()), labels=RAY), probes.pod("open", "serve", "7000")
    )
    probes.apply(*(probes.pod(name, "sleep", "3600", labels=labels) for name, labels in clients.items()))
    others = {"operator": OPERATOR_LABELS, "prometheus": {"app": "prometheus"}, "stranger": {}}
    other_probes.apply(*(other_probes.pod(name, "sleep", "3600", labels=labels) for name, labels in others.items()))
    addresses = probes.wait_running("head", "open", *clients)
    other_probes.wait_running(*others)
    prometheus = {
        "namespaceSelector": {"matchLabels": {"team": "b"}},
        "podSelector": {"matchLabels": {"app": "prometheus"}},
    }
    probes.apply(
        closing,
        ray_policy(
            {"name": "demo-ray", "namespace": probes.namespace},
            JOB,
            operator_namespace=other_probes.namespace,
            metrics_peers=[prometheus],
            router_clients=SHARD,
        ),
    )
    of_head = {name: f"tcp:{addresses['head']}:{port}" for name, port in PORTS.items()}
    return of_head | {OPEN: f"tcp:{addresses['open']}:7000"}


@pytest.mark.parametrize("client", REACHED)
def test_only_those_who_need_a_port_reach_it(
    probes: ProbeNamespace, other_probes: ProbeNamespace, targets: dict[str, str], client: str
) -> None:
    place = other_probes if client in ("operator", "prometheus", "stranger") else probes
    deadline = time.monotonic() + 40  # a policy takes effect after some tens of ms
    while True:
        found = {name for name, answers in place.reachability(client, targets).items() if answers}
        if found == REACHED[client] or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert found == REACHED[client]
