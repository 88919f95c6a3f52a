"""`swerl images missing` names every image that some node lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiohttp import web
from swerl_agent.cli import main
from swerl_api import SweImageSetSpec, SweImageSetStatus
from swerl_operator.images.decide import PullHistory
from swerl_operator.images.status import build_status

from tests.kubeconfig import write_kubeconfig

SET = "/apis/swerl.dev/v1alpha1/namespaces/rl/sweimagesets/gym"
MAP = "/api/v1/namespaces/rl/configmaps/list"
SPEC = {
    "images": ["docker.io/x/first:1"],
    "imagesFrom": {"configMap": "list"},
    "registryRewrite": [{"prefix": "docker.io/", "replacement": "mirror:5000/"}],
}
LISTED = "# SWE-Gym\n\n" + "".join(f"docker.io/x/task-{number:04}:latest\n" for number in range(3000))
IMAGE_SET = SweImageSetSpec.model_validate(SPEC)
IMAGES = IMAGE_SET.references(LISTED)


def observed(pulled: dict[str, set[str]], nodes: list[str]) -> dict[str, Any]:
    """The status that the operator writes."""
    status = build_status(
        SweImageSetStatus(), IMAGES, nodes, PullHistory(pulled), SweImageSetSpec.model_validate(SPEC), 1
    )
    return status.model_dump(mode="json", by_alias=True)


class Cluster:
    """An API server that knows one set and its list."""

    def __init__(self, folder: Path) -> None:
        self.objects: dict[str, Any] = {
            SET: {"metadata": {"name": "gym"}, "spec": SPEC, "status": {}},
            MAP: {"data": {"images.txt": LISTED}},
        }
        self.kubeconfig = folder / "kubeconfig"
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)

    def start(self) -> None:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        write_kubeconfig(self.kubeconfig, f"http://127.0.0.1:{port}", namespace="rl")

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> int:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        failure = {"kind": "Status", "reason": "NotFound", "message": f"{request.path} not found", "code": 404}
        return web.json_response(failure, status=404)


Missing = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def missing(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Missing:
    """Exit code, printed lines and complaints of the command."""

    def run(*options: str) -> tuple[int, list[str], str]:
        code = main(["images", "missing", "gym", "--kubeconfig", str(cluster.kubeconfig), *options])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    return run


def test_every_missing_image_is_named_however_many_they_are(cluster: Cluster, missing: Missing) -> None:
    present = {"n1": set(IMAGES[:1500]), "n2": set(IMAGES[500:2000])}
    cluster.objects[SET]["status"] = observed(present, ["n1", "n2"])
    code, lines, _ = missing()
    assert (code, lines) == (1, IMAGES[:500] + IMAGES[1500:])
    assert lines[0] == "mirror:5000/x/first:1" and len(lines) == 2001
    _, lines, _ = missing("--nodes")
    assert (lines[0], lines[500], lines[-1]) == (f"{IMAGES[0]} n2", f"{IMAGES[1500]} n1", f"{IMAGES[-1]} n1 n2")


def test_nothing_is_printed_when_all_are_there(cluster: Cluster, missing: Missing) -> None:
    cluster.objects[SET]["status"] = observed({"n1": set(IMAGES)}, ["n1"])
    assert missing() == (0, [], "")


def test_list_that_the_operator_has_not_observed_gives_no_result(cluster: Cluster, missing: Missing) -> None:
    assert missing()[0] == 2
    cluster.objects[SET]["status"] = observed({"n1": set(IMAGES)}, ["n1"])
    cluster.objects[MAP]["data"]["images.txt"] += "docker.io/x/another:1\n"
    code, lines, stderr = missing()
    assert (code, lines) == (2, []) and "has not processed the current list of SweImageSet rl/gym yet" in stderr


def test_missing_object_is_a_usage_error(cluster: Cluster, missing: Missing) -> None:
    del cluster.objects[MAP]
    code, _, said = missing()
    assert code == 2 and "configmaps/list not found" in said
    del cluster.objects[SET]
    code, _, said = missing()
    assert code == 2 and "sweimagesets/gym not found" in said
    cluster.objects[SET] = {"metadata": {"name": "gym"}, "spec": {"images": ["a"]}, "status": {}}
    cluster.objects[SET]["status"] = build_status(
        SweImageSetStatus(), ["a"], [], PullHistory(), IMAGE_SET, 1
    ).model_dump(by_alias=True)
    code, _, said = missing()
    assert code == 2 and "selects no ready node" in said
