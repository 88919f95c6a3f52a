"""One SweImageSet over an API server in memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_api import SweImageSetSpec
from swerl_operator.errors import ApiError, Forbidden, Invalid
from swerl_operator.images.reconciler import PULLING_SECONDS, ImageSetReconciler

Body = dict[str, Any]
NODE = {"metadata": {"name": "n1"}, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Server:
    """Holds one set and one node; refuses the Pods of some images."""

    def __init__(self, images: list[str], refused: dict[str, ApiError], per_minute: int = 100_000) -> None:
        spec = {"images": images, "retries": 0, "pullsPerMinute": per_minute}
        metadata = {"name": "set", "namespace": "ns", "uid": "u", "generation": 1}
        self.set: Body = {"metadata": metadata, "spec": spec}
        self.nodes = [NODE]
        self.refused = refused
        self.pulled: list[str] = []

    async def find(self, *_: object) -> Body:
        return self.set

    async def list(self, api_version: str, resource: str, *_: object, **__: object) -> list[Body]:
        return self.nodes if resource == "nodes" else []

    async def create(self, resource: str, pod: Body) -> None:
        image = pod["spec"]["containers"][0]["image"]
        if image in self.refused:
            raise self.refused[image]
        self.pulled.append(image)

    async def patch(self, *arguments: Any, **_: object) -> None:
        self.set["status"] = arguments[4]["status"]


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid("POST", 422, "Invalid", "must not have leading or trailing whitespace"),
        Forbidden("POST", 403, "Forbidden", "exceeded quota: pods=10"),
    ],
)
async def test_an_image_whose_pod_is_refused_is_named_and_the_others_come(refusal: ApiError) -> None:
    server = Server([" bad", "good"], {" bad": refusal})
    reconciler = ImageSetReconciler(SimpleNamespace(api=server))  # type: ignore[arg-type]
    await reconciler.reconcile(("ns", "set"))
    await asyncio.sleep(0.01)  # until another pull may start
    await reconciler.reconcile(("ns", "set"))
    assert server.pulled == ["good"]
    [condition] = server.set["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "PullFailed")
    assert f"bad on n1: the API server refuses its Pod: {refusal.message}" in condition["message"]


@pytest.mark.parametrize("look", [0.5, PULLING_SECONDS])  # seconds between two looks
@pytest.mark.parametrize("waits", [0, 90])  # seconds without a node
@pytest.mark.parametrize("sets", [1, 2, 3])  # that pull at the same time
async def test_no_minute_has_more_pulls_than_public_registries_bear(
    look: float, waits: int, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("swerl_operator.images.reconciler.time.monotonic", lambda: clock.now)
    server = Server(["a", "b", "c", "d"], {}, per_minute=SweImageSetSpec(images=["a"]).pulls_per_minute)
    reconciler = ImageSetReconciler(SimpleNamespace(api=server))  # type: ignore[arg-type]
    started: list[float] = []
    for _ in range(int(400 / look)):
        clock.now += look
        server.nodes = [NODE] if clock.now > 1000 + waits else []
        for one in range(sets):
            await reconciler.reconcile(("ns", f"set-{one}"))
        started += [clock.now] * (len(server.pulled) - len(started))
    windows = [sum(begin <= one < begin + 60 for one in started) for begin in started]
    assert max(windows) >= 29 and 3 * max(windows) < 100, "of about three manifests each"
