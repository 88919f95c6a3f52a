"""Builders of SweSandboxes and Pods as the API server returns them, and a small API server in memory."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from swerl_kube import Conflict, Forbidden, Invalid, NotFound, Unavailable
from swerl_operator.sandboxes.group_state import SandboxGroupState
from swerl_operator.sandboxes.parsed import ParsedGroup, ParsedPod, PodStage, owner_uid, parse_group, parse_pod
from swerl_operator.sandboxes.store import GroupRecord, IsolationCheck
from swerl_operator.times import format_time

Body = dict[str, Any]
NOW = 1_000_000.0
SANDBOX_LABEL = "swerl.dev/sandbox"


def sandbox_body(name: str = "g", *, uid: str = "", job: str = "j", created: float = NOW, **spec: Any) -> Body:
    return {
        "apiVersion": "swerl.dev/v1alpha1",
        "kind": "SweSandbox",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid or f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": format_time(created),
            "labels": {"swerl.dev/job": job, "kueue.x-k8s.io/queue-name": "q", "team": "x"},
        },
        "spec": {"image": "registry/task:1", "replicas": 4} | spec,
    }


def pod_body(ordinal: int = 0, *, group: str = "g", version: int = 1, **status: Any) -> Body:
    return {
        "metadata": {
            "name": f"swesb-{group}-{ordinal}",
            "namespace": "ns",
            "uid": f"pod-{group}-{ordinal}",
            "resourceVersion": str(version),
            "creationTimestamp": format_time(NOW),
            "labels": {SANDBOX_LABEL: group},
            "ownerReferences": [{"kind": "SweSandbox", "uid": f"uid-{group}", "controller": True}],
        },
        "status": status,
    }


def ready_status() -> Body:
    return {"phase": "Running", "conditions": [_true("PodScheduled"), _true("Ready")]}


def waiting_status(reason: str, message: str = "") -> Body:
    container = {"name": "sandbox", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"phase": "Pending", "conditions": [_true("PodScheduled")], "containerStatuses": [container]}


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    kept = {key: value for key, value in old.items() if key not in patch}
    return kept | {key: merged(old.get(key, {}), value) for key, value in patch.items() if value is not None}


def _true(kind: str) -> Body:
    return {"type": kind, "status": "True"}


@pytest.fixture
def group() -> Callable[..., ParsedGroup]:
    return lambda *args, **spec: parse_group(sandbox_body(*args, **spec))


@pytest.fixture
def pod() -> Callable[..., ParsedPod]:
    def build(ordinal: int = 0, stage: PodStage = PodStage.READY, **fields: Any) -> ParsedPod:
        defaults = {
            "namespace": "ns",
            "name": f"swesb-g-{ordinal}",
            "uid": f"pod-g-{ordinal}",
            "version": 1,
            "created": NOW,
        }
        running = stage is PodStage.READY
        return ParsedPod(**({**defaults, "ordinal": ordinal, "stage": stage, "running": running} | fields))

    return build


@pytest.fixture
def record() -> Callable[..., GroupRecord]:
    """Builds the record of an admitted, isolated group; `facts` are fields of the record or of its state."""

    def build(*pods: ParsedPod, spec: Body | None = None, status: Body | None = None, **fields: Any) -> GroupRecord:
        body = sandbox_body(**(spec or {})) | ({"status": status} if status else {})
        built = GroupRecord(
            "uid-g",
            parse_group(body),
            pods={p.ordinal: p for p in pods},
            created=max((p.ordinal + 1 for p in pods), default=0),
            was_ready=any(p.stage is PodStage.READY for p in pods),
            isolation_check=IsolationCheck(passed=True),
            state=SandboxGroupState(admitted=True, slots=8),
        )
        for name, fact in fields.items():
            setattr(built if hasattr(built, name) else built.state, name, fact)
        return built

    return build


class FakeApiServer:
    """An API server in memory: objects, resourceVersions, watch events; it may lose requests and answers.

    `created` counts how often each (group UID, ordinal) was created; `peak` is the most Pods ever alive per job.
    """

    def __init__(self, rng: random.Random, *, error_rate: float = 0.0) -> None:
        self.rng, self.error_rate = rng, error_rate
        self.sandboxes: dict[str, Body] = {}
        self.pods: dict[str, Body] = {}
        self.leases: dict[str, Body] = {}
        self.policies: dict[str, Body] = {}
        self.nodes: list[Body] = []
        self.service_networks: list[Body] | None = []  # None: the API server does not have the kind
        self.forbidden: set[str] = set()  # resources that may not be listed
        self.posted_events: list[Body] = []
        self.events: list[tuple[str, str, Body]] = []
        self.created: Counter[tuple[str, int]] = Counter()
        self.writes: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self.gates: list[Body] = []  # that a webhook puts on each Pod as it is created
        self.probed: list[tuple[str, list[str]]] = []  # probed Pods, with the arguments of the probe
        self.answers = "ended 0\n"  # what such a probe prints

    # What a user, a kubelet or a client does.

    def declare(self, name: str, **spec: Any) -> Body:
        body = sandbox_body(name, uid=f"uid-{name}-{next(self._uids)}", created=NOW, **spec)
        self.sandboxes[name] = body
        self.emit("sandbox", "ADDED", body)
        return body

    def set_ready(self, name: str) -> None:
        self.pods[name]["status"] = ready_status()
        self.emit("pod", "MODIFIED", self.pods[name])

    def remove(self, kind: str, name: str) -> None:
        store = self.sandboxes if kind == "sandbox" else self.pods
        self.emit(kind, "DELETED", store.pop(name))

    def collect_garbage(self) -> None:
        alive = {body["metadata"]["uid"] for body in self.sandboxes.values()}
        for name in [n for n, body in self.pods.items() if owner_uid(body) not in alive]:
            self.remove("pod", name)

    def emit(self, kind: str, event: str, body: Body) -> None:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.events.append((kind, event, copy.deepcopy(body)))

    # What the operator's client asks.

    async def request(self, method: str, url: str, *, query: Body | None = None, **_: Any) -> Body:
        self._maybe_fail()
        store = self.sandboxes if "swesandboxes" in url else self.pods
        items = [copy.deepcopy(body) for body in store.values()]
        return {"items": items, "metadata": {"resourceVersion": str(next(self._versions))}}

    async def stream(self, url: str, version: int, *, labels: str = "") -> AsyncIterator[tuple[str, Body]]:
        """No event: the tests deliver events themselves."""
        await asyncio.Event().wait()
        yield "", {}

    async def get(self, api_version: str, resource: str, namespace: str, name: str) -> Body:
        self._maybe_fail()
        assert (resource, namespace, name) == ("endpointslices", "default", "kubernetes")
        return {"endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [{"port": 6443}]}

    async def exec_output(self, namespace: str, pod: str, command: list[str], **_: Any) -> bytes:
        self._maybe_fail()
        if pod not in self.pods:
            raise NotFound("EXEC", 404, "NotFound", pod)
        self.probed.append((pod, command))
        return self.answers.encode()

    async def find(self, api_version: str, resource: str, namespace: str, name: str) -> Body | None:
        self._maybe_fail()
        stores = {"pods": self.pods, "leases": self.leases, "networkpolicies": self.policies}
        return copy.deepcopy(stores[resource].get(name))

    async def list(self, api_version: str, resource: str, namespace: str | None, *, labels: str = "") -> list[Body]:
        self._maybe_fail()
        if resource in self.forbidden:
            raise Forbidden("GET", 403, "Forbidden", resource)
        if resource == "servicecidrs" and self.service_networks is None:
            raise NotFound("GET", 404, "NotFound", resource)
        stores = {
            "networkpolicies": [*self.policies.values()],
            "nodes": self.nodes,
            "servicecidrs": self.service_networks or [],
        }
        return copy.deepcopy(stores[resource])

    async def create(self, resource: str, body: Body) -> Body:
        self._maybe_fail()
        name = body["metadata"]["name"]
        if resource == "networkpolicies":
            self.policies[name] = body
            return body
        if resource == "events":
            self.posted_events.append(body)
            return body
        if name in self.pods:
            raise Conflict("POST", 409, "AlreadyExists", name)
        image = body["spec"]["containers"][0]["image"]
        if image.startswith("unwelcome"):
            raise Forbidden("POST", 403, "Forbidden", 'pod rejected: RuntimeClass "o" not found')
        if image.startswith("forbidden"):
            raise Invalid("POST", 422, "Invalid", "spec.containers[0].image: not allowed here")
        body = copy.deepcopy(body)
        body["metadata"] |= {"uid": f"pod-{next(self._uids)}", "creationTimestamp": format_time(NOW)}
        if self.gates:
            body["spec"]["schedulingGates"] = self.gates
        self.pods[name] = body
        self.writes["create"] += 1
        self._count(body)
        self.emit("pod", "ADDED", body)
        self._maybe_fail()
        return copy.deepcopy(body)

    async def patch(
        self, api_version: str, resource: str, namespace: str, name: str, body: Body, *, subresource: str = ""
    ) -> Body:
        self._maybe_fail()
        if resource == "networkpolicies":
            self.policies[name] = merged(self.policies[name], body)
            return self.policies[name]
        if name not in self.sandboxes:
            raise NotFound("PATCH", 404, "NotFound", name)
        self.sandboxes[name]["status"] = copy.deepcopy(body["status"])
        self.writes["status"] += 1
        self.emit("sandbox", "MODIFIED", self.sandboxes[name])
        return copy.deepcopy(self.sandboxes[name])

    async def delete(self, api_version: str, resource: str, namespace: str, name: str, **options: Any) -> bool:
        self._maybe_fail()
        if resource == "networkpolicies":
            return self.policies.pop(name, None) is not None
        kind = "pod" if resource == "pods" else "sandbox"
        store = self.pods if kind == "pod" else self.sandboxes
        if name not in store or options.get("uid") not in (None, store[name]["metadata"]["uid"]):
            return False
        self.writes["delete"] += 1
        self.remove(kind, name)
        return True

    def _count(self, body: Body) -> None:
        pod = parse_pod(body)
        assert pod is not None
        self.created[(str(owner_uid(body)), pod.ordinal)] += 1
        alive = Counter(b["metadata"]["labels"].get("swerl.dev/job", "") for b in self.pods.values())
        for job, number in alive.items():
            self.peak[job] = max(self.peak[job], number)

    def _maybe_fail(self) -> None:
        if self.rng.random() < self.error_rate:
            raise Unavailable("the API server did not answer")


@pytest.fixture
def make_api_server() -> Callable[..., FakeApiServer]:
    return FakeApiServer
