"""Nodes that exist only in the API: a KWOK controller acts as their kubelet for as long as a context lasts.

Guarantees: only Pods that ask for these nodes land there (label and taint); controller and nodes are gone afterwards.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import build
from cluster.layout import swerl_home
from demo.cluster import DemoCluster

LABEL = "swerl.dev/kwok"
POD_CIDR = "10.64.0.0/16"  # of no cluster of this machine
PLACEMENT: dict[str, Any] = {
    "nodeSelector": {LABEL: "bench"},
    "tolerations": [{"key": LABEL, "operator": "Exists", "effect": "NoSchedule"}],
}
"""Fields of a SweSandbox whose Pods are to land on these nodes."""


@contextmanager
def fake_nodes(cluster: DemoCluster, count: int, pods_each: int, folder: Path) -> Iterator[None]:
    """`count` Ready nodes with room for `pods_each` Pods each; log and settings of the controller go to `folder`."""
    command = _command(cluster, folder)
    with (folder / "kwok.log").open("wb") as log:
        controller = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        items = [_node(number, pods_each) for number in range(count)]
        cluster.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        cluster.kubectl("wait", "--for=condition=Ready", "nodes", "-l", LABEL, "--timeout=60s")
        yield
    finally:
        cluster.kubectl("delete", "nodes", "-l", LABEL, "--ignore-not-found")
        controller.terminate()
        controller.wait(timeout=30)


def _command(cluster: DemoCluster, folder: Path) -> list[str]:
    programs = build.build(swerl_home(), "kwok")
    stages = folder / "kwok-stages.yaml"
    wanted = [programs / "node-stages" / "node-initialize.yaml", *sorted((programs / "pod-stages").glob("*.yaml"))]
    stages.write_text("\n---\n".join(path.read_text() for path in wanted))
    return [
        str(programs / "kwok"), f"--kubeconfig={cluster.kubeconfig}", f"--config={stages}", "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={LABEL}", f"--cidr={POD_CIDR}", "--node-lease-duration-seconds=40",
    ]  # fmt: skip


def _node(number: int, pods: int) -> dict[str, Any]:
    room = {"cpu": str(pods), "memory": f"{pods}Gi", "ephemeral-storage": f"{pods}Gi", "pods": str(pods)}
    name = f"kwok-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {LABEL: "bench", "kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": LABEL, "value": "bench", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }
