"""One SweImageSet over an API server in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_api import SweImageSetSpec
from swerl_kube import ApiError, BadRequest, Conflict, Forbidden, Invalid, KubeError, WebhookFailed
from swerl_kube.errors import answer_error
from swerl_operator.images.reconciler import PULLING_SECONDS, ImageSetReconciler

Body = dict[str, Any]
NODE = {"metadata": {"name": "n1"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Server:
    """Holds one set and one node; refuses the Pods of some images."""

    def __init__(self, images: list[str], refused: Mapping[str, KubeError], per_minute: int = 100_000) -> None:
        spec = {"images": images, "retries": 0, "pullsPerMinute": per_minute}
        metadata = {"name": "set", "namespace": "ns", "uid": "u", "generation": 1}
        self.set: Body = {"metadata": metadata, "spec": spec}
        self.nodes = [NODE]
        self.refused = refused
        self.pulled: list[str] = []
        self.policies: list[Body] = []
        self.foreign_policy: Body = {}
        self.foreign_pod: Body = {}
        self.pods: list[Body] = []

    async def find(self, api_version: str, resource: str, *_: object) -> Body:
        return {"networkpolicies": self.foreign_policy, "pods": self.foreign_pod}.get(resource, self.set)

    async def list(self, api_version: str, resource: str, *_: object, **__: object) -> list[Body]:
        return self.nodes if resource == "nodes" else self.pods

    async def create(self, resource: str, pod: Body) -> None:
        if resource == "networkpolicies":
            if self.foreign_policy:
                raise Conflict("POST", 409, "AlreadyExists", pod["metadata"]["name"])
            self.policies.append(pod)
            return
        assert self.policies, "the policy comes first"
        if self.foreign_pod:
            raise Conflict("POST", 409, "AlreadyExists", pod["metadata"]["name"])
        image = pod["spec"]["containers"][0]["image"]
        if image in self.refused:
            raise self.refused[image]
        self.pulled.append(image)

    async def delete(self, *_: object, **__: object) -> None:
        self.pods = []

    def pull(self, image: str) -> None:
        """Have a Pod that has pulled this image."""
        completed = {"containerStatuses": [{"name": "pull", "state": {"terminated": {"exitCode": 0}}}]}
        spec = {"nodeName": "n1", "containers": [{"name": "pull", "image": image}]}
        owners = [{"uid": self.set["metadata"]["uid"]}]
        metadata = {"name": "p", "namespace": "ns", "uid": "p", "ownerReferences": owners}
        self.pods = [{"metadata": metadata, "spec": spec, "status": completed}]

    async def patch(self, *arguments: Any, **_: object) -> None:
        self.set["status"] = arguments[4]["status"]


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid("POST", 422, "Invalid", "must not have leading or trailing whitespace"),
        Forbidden("POST", 403, "Forbidden", "exceeded quota: pods=10"),
        BadRequest("POST", 400, "BadRequest", 'admission webhook "policy.example.org" denied the request'),
        answer_error("POST", 500, '{"kind": "Status", "message": "failed calling webhook \\"policy.example.org\\""}'),
    ],
)
@pytest.mark.parametrize("retries", [0, 5])
async def test_image_whose_pod_is_refused_is_reported_at_once_and_the_others_are_pulled(
    refusal: ApiError | WebhookFailed, retries: int
) -> None:
    server = Server([" bad", "good"], {" bad": refusal})
    server.set["spec"]["retries"] = retries
    reconciler = ImageSetReconciler(SimpleNamespace(api=server))  # type: ignore[arg-type]
    await reconciler.reconcile(("ns", "set"))
    await asyncio.sleep(0.01)  # until another pull may start
    await reconciler.reconcile(("ns", "set"))
    assert {*server.pulled} == {"good"}
    [condition] = server.set["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "PodRefused")
    assert f"bad on n1: the API server refuses its Pod: {refusal.message}" in condition["message"]


async def test_new_set_of_the_same_name_pulls_its_images_again() -> None:
    server = Server(["a"], {})
    reconciler = ImageSetReconciler(SimpleNamespace(api=server))  # type: ignore[arg-type]
    server.pull("a")
    for _ in range(2):
        await reconciler.reconcile(("ns", "set"))
    assert (server.pulled, server.set["status"]["missing"]) == ([], 0)
    server.set = {"metadata": server.set["metadata"] | {"uid": "another"}, "spec": server.set["spec"]}
    await reconciler.reconcile(("ns", "set"))
    assert (server.pulled, server.set["status"]["missing"]) == (["a"], 1)


async def test_pods_of_others_with_the_label_of_the_set_are_left_alone() -> None:
    server = Server(["a"], {})
    sandbox = {"name": "swesb-x-0", "namespace": "ns", "uid": "s", "ownerReferences": [{"uid": "x"}]}
    server.pods = [{"metadata": sandbox, "spec": {"containers": [{"name": "sandbox", "image": "b"}]}}]
    await ImageSetReconciler(SimpleNamespace(api=server)).reconcile(("ns", "set"))  # type: ignore[arg-type]
    assert (server.pulled, len(server.pods)) == (["a"], 1)


async def test_pod_of_others_with_the_name_of_a_pull_is_reported() -> None:
    server = Server(["a"], {})
    server.foreign_pod = {"metadata": {"name": "x", "ownerReferences": [{"uid": "another"}]}}
    await ImageSetReconciler(SimpleNamespace(api=server)).reconcile(("ns", "set"))  # type: ignore[arg-type]
    [condition] = server.set["status"]["conditions"]
    assert "in namespace 'ns' does not belong to this SweImageSet" in condition["message"]


async def test_policy_of_another_owner_stops_the_pulls_with_its_name() -> None:
    server = Server(["a"], {})
    server.foreign_policy = {"metadata": {"name": "sweimg-set"}}
    await ImageSetReconciler(SimpleNamespace(api=server)).reconcile(("ns", "set"))  # type: ignore[arg-type]
    assert server.pulled == []
    [condition] = server.set["status"]["conditions"]
    assert "NetworkPolicy 'sweimg-set' in namespace 'ns' does not belong to this SweImageSet" in condition["message"]


@pytest.mark.parametrize("observed_seconds", [0.5, PULLING_SECONDS])  # seconds between two looks
@pytest.mark.parametrize("waits", [0, 90])  # seconds without a node
@pytest.mark.parametrize("sets", [1, 2, 3])  # that pull at the same time
async def test_pulls_per_minute_stay_below_the_limit_of_public_registries(
    observed_seconds: float, waits: int, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_start = time.monotonic()  # a new set uses the machine's own clock
    clock = SimpleNamespace(now=clock_start)
    monkeypatch.setattr("swerl_operator.images.reconciler.time.monotonic", lambda: clock.now)
    server = Server(["a", "b", "c", "d"], {}, per_minute=SweImageSetSpec(images=["a"]).pulls_per_minute)
    reconciler = ImageSetReconciler(SimpleNamespace(api=server))  # type: ignore[arg-type]
    started: list[float] = []
    for _ in range(int(400 / observed_seconds)):
        clock.now += observed_seconds
        server.nodes = [NODE] if clock.now > clock_start + waits else []
        for number in range(sets):
            await reconciler.reconcile(("ns", f"set-{number}"))
        started += [clock.now] * (len(server.pulled) - len(started))
    windows = [sum(begin <= number < begin + 60 for number in started) for begin in started]
    assert max(windows) >= 29 and 3 * max(windows) < 100, "of about three manifests each"
