"""A queue of the real Kueue with a quota of a few Pods, and what becomes of it; every wait is bounded."""

from __future__ import annotations

import json
from typing import Any

from swerl_kube import KubeClient

from tests.conftest import kubectl
from tests.control_plane.sandboxes.conftest import User
from tests.kueue.installation import MANAGED

Body = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
QUOTA = 5  # Pods
LOCAL_QUEUE = "sandboxes"
# A queue admits only what asks for nothing but the resources that it covers; every sandbox asks for these.
QUOTA_RESOURCES = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "40Gi", "pods": str(QUOTA)}
IN_QUEUE = {"kueue.x-k8s.io/queue-name": LOCAL_QUEUE}
LOW = IN_QUEUE | {"kueue.x-k8s.io/priority-class": "swerl-test-low"}
HIGH = IN_QUEUE | {"kueue.x-k8s.io/priority-class": "swerl-test-high"}


class Queue(User):
    """A user whose namespace has a LocalQueue."""

    def __init__(self, api: KubeClient, namespace: str, cluster_queue: str) -> None:
        super().__init__(api, namespace)
        self._cluster_queue = cluster_queue

    async def admitted_pods(self) -> int:
        """Pods of the quota that are taken."""
        queue = await self.api.get(API, "clusterqueues", None, self._cluster_queue)
        flavors = (queue.get("status") or {}).get("flavorsReservation") or []
        totals = [r["total"] for flavor in flavors for r in flavor["resources"] if r["name"] == "pods"]
        return int(totals[0]) if totals else 0

    async def until_admitted_pods(self, number: int, seconds: float = 60) -> None:
        await self.until(self.admitted_pods, lambda admitted: admitted == number, seconds)

    async def workloads(self) -> list[str]:
        """Names of the Workloads in the namespace."""
        return [found["metadata"]["name"] for found in await self.api.list(API, "workloads", self.namespace)]

    async def wait_deleted(self, group: str, seconds: float = 60) -> None:
        """Wait until no Pod of the group is left, whatever holds it."""
        await self.until(lambda: self.pods(group), lambda pods: not pods, seconds)

    async def empty(self, seconds: float = 60) -> None:
        """Wait until the queue holds nothing, no Workload is left, and no Pod with Kueue's finalizer."""
        await self.until_admitted_pods(0, seconds)
        await self.until(self.workloads, lambda found: not found, seconds)
        await self.until(self.pods_with_finalizer, lambda found: not found, seconds)

    async def pods_with_finalizer(self) -> list[str]:
        """Pods of the namespace with Kueue's finalizer."""
        pods = await self.api.list("v1", "pods", self.namespace)
        return [p["metadata"]["name"] for p in pods if MANAGED in p["metadata"].get("finalizers", [])]

    async def placed(self, group: str) -> list[str]:
        """Pods of the group that have a node."""
        return [name for name, pod in (await self.pods(group)).items() if pod["spec"].get("nodeName")]


def declare(kubeconfig: str, namespace: str) -> str:
    """Flavor, ClusterQueue with `QUOTA`, LocalQueue, and two priorities; the name of the ClusterQueue."""
    resources = [{"name": name, "nominalQuota": quota} for name, quota in QUOTA_RESOURCES.items()]
    group = {"coveredResources": list(QUOTA_RESOURCES), "flavors": [{"name": namespace, "resources": resources}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    items: list[Body] = [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": namespace}},
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec},
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": LOCAL_QUEUE, "namespace": namespace},
            "spec": {"clusterQueue": namespace},
        },
        *(
            {
                "apiVersion": API,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": f"swerl-test-{name}"},
                "value": value,
            }
            for name, value in (("low", 100), ("high", 1000))
        ),
    ]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl(kubeconfig, "apply", "--server-side", "-f", "-", stdin=listing)
    kubectl(kubeconfig, "wait", "--for=condition=Active", f"clusterqueue/{namespace}", "--timeout=60s")
    return namespace
