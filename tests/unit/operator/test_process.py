"""The operator's frame: settings, the work queue, the Lease."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
from swerl_kube import Unavailable, resource_path
from swerl_kube.logs import LogSettings
from swerl_operator.__main__ import parse_settings
from swerl_operator.metrics import Metrics
from swerl_operator.workqueue import WorkQueue


def test_command_line_overrides_the_environment() -> None:
    settings = parse_settings(["--health-port=1"], {"SWERL_HEALTH_PORT": "2", "SWERL_NAMESPACES": "a,b"})
    assert (settings.health_port, settings.namespaces) == (1, ("a", "b"))


def test_peers_of_metrics_are_checked_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_settings(['--metrics-peers=[{"podSelector": {}}]'], {}).metrics_peers == ({"podSelector": {}},)
    for wrong in ("[", "{}", "[1]"):
        with pytest.raises(SystemExit, match="2"):
            parse_settings([f"--metrics-peers={wrong}"], {})
        assert "--metrics-peers: " in capsys.readouterr().err


def test_paths_follow_the_api_conventions() -> None:
    assert resource_path("v1", "pods", "ns", "x", "log") == "/api/v1/namespaces/ns/pods/x/log"
    assert resource_path("swerl.dev/v1alpha1", "swerljobs", None) == "/apis/swerl.dev/v1alpha1/swerljobs"


async def _run(queue: WorkQueue[str], seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await queue.run()


async def test_key_added_while_reconciled_runs_once_more() -> None:
    lines: list[str] = []

    async def reconcile(key: str) -> None:
        lines.append(key)
        if len(lines) == 1:
            for _ in range(5):
                queue.add(key)
            await asyncio.sleep(0.01)

    queue: WorkQueue[str] = WorkQueue("test", reconcile, Metrics(), workers=3)
    queue.add("a")
    queue.add("a")
    await _run(queue, 0.2)
    assert lines == ["a", "a"]


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the operator logs."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = [*root.handlers], root.level
    LogSettings("json").configure(stream)
    yield stream
    root.handlers, root.level = handlers, level


async def test_lines_name_the_object_that_is_reconciled(lines: io.StringIO) -> None:
    async def reconcile(key: tuple[str, str]) -> None:
        logging.getLogger("test").info("reconciling")

    queue: WorkQueue[tuple[str, str]] = WorkQueue("SweSandbox", reconcile, Metrics())
    queue.add(("team-a", "g1"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await queue.run()
    line = json.loads(lines.getvalue().splitlines()[0])
    assert (line["kind"], line["namespace"], line["name"]) == ("SweSandbox", "team-a", "g1")


async def test_waits_of_keys_are_measured() -> None:
    metrics = Metrics()

    async def reconcile(key: str) -> None:
        await asyncio.sleep(0.05)

    queue: WorkQueue[str] = WorkQueue("test", reconcile, metrics, workers=1)
    queue.add("a")
    queue.add("b")
    await _run(queue, 0.3)
    waited = metrics.registry.get_sample_value("swerl_operator_queue_wait_seconds_sum", {"kind": "test"})
    assert waited is not None and 0.04 < waited < 0.2, "the second key waited for the first"


async def test_immediate_add_replaces_a_delay() -> None:
    lines: list[str] = []

    async def reconcile(key: str) -> float | None:
        lines.append(key)
        return None

    queue: WorkQueue[str] = WorkQueue("test", reconcile, Metrics())
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)
    await _run(queue, 0.2)
    assert lines == ["a"]


async def test_failed_key_is_retried() -> None:
    lines: list[str] = []

    async def reconcile(key: str) -> None:
        lines.append(key)
        if len(lines) == 1:
            raise Unavailable("the API server restarts")

    queue: WorkQueue[str] = WorkQueue("test", reconcile, Metrics())
    queue.add("a")
    await _run(queue, 1.0)
    assert lines == ["a", "a"]


async def test_job_with_a_thousand_keys_does_not_delay_the_others() -> None:
    lines: list[str] = []

    async def reconcile(key: str) -> None:
        lines.append(key)

    queue: WorkQueue[str] = WorkQueue("test", reconcile, Metrics(), workers=1, flow=lambda key: key[0])
    for number in range(1000):
        queue.add(f"a{number}")
    queue.add("b0")
    queue.add("c0")
    queue.add("b1")
    await _run(queue, 0.5)
    assert lines[:6] == ["a0", "b0", "c0", "a1", "b1", "a2"]
    assert len(lines) == 1003
