"""A group without a network is Ready only when one of its Pods was asked and reached nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from swerl_operator.sandboxes.isolation_check import own_name_servers

from .operator_in_memory import InMemoryOperator, run_until

REACHED = "tcp 192.0.2.1 6443\nended 0\n"


@pytest.fixture
async def server(make_api_server: Callable[..., Any]) -> Any:
    return make_api_server(random.Random(1))


@pytest.fixture
async def operator(server: Any) -> AsyncIterator[InMemoryOperator]:
    running = InMemoryOperator(server)
    yield running
    await running.stop()


def ready(server: Any, name: str = "g") -> dict[str, Any]:
    """The condition, as written; empty while there is none."""
    conditions = server.sandboxes[name].get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == "Ready"), {})


def checks(operator: InMemoryOperator, outcome: str) -> float:
    """Isolation checks with this outcome, as counted."""
    return operator.registry.get_sample_value("swerl_sandbox_isolation_checks_total", {"outcome": outcome}) or 0.0


async def test_one_pod_probes_the_addresses_of_operator_and_api_server(server: Any, operator: InMemoryOperator) -> None:
    server.declare("g", replicas=3)
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    ((_, command),) = server.probed
    assert command[-5:] == ["1", "6443", "none", "tcp 192.0.2.9 8080", "tcp 192.0.2.1 6443"]


async def test_group_is_ready_only_when_its_probe_reaches_nothing(server: Any, operator: InMemoryOperator) -> None:
    server.answers = REACHED
    server.declare("g", replicas=2)
    await run_until(server, operator, lambda: ready(server).get("reason") == "NotIsolated")
    assert "tcp 192.0.2.1 6443" in ready(server)["message"]
    assert [event["reason"] for event in server.posted_events] == ["NotIsolated"]
    server.answers = "ended 0\n"
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    assert checks(operator, "reachable") and checks(operator, "passed") == 1 and not checks(operator, "failed")


@pytest.mark.parametrize(("answers", "reason"), [("ended 3\n", "no bash, python3 or nc"), ("half", "did not finish")])
async def test_probe_that_cannot_check_does_not_pass(
    server: Any, operator: InMemoryOperator, answers: str, reason: str
) -> None:
    server.answers = answers
    server.declare("g", replicas=1)
    await run_until(server, operator, lambda: reason in ready(server).get("message", ""))
    assert checks(operator, "failed") and not checks(operator, "reachable")
    assert ready(server)["status"] != "True"


async def test_group_with_egress_is_not_probed(server: Any, operator: InMemoryOperator) -> None:
    server.declare("g", replicas=2, egress="allow")
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    assert not server.probed


async def test_group_with_public_addresses_is_probed_without_its_own_name_servers(
    server: Any, operator: InMemoryOperator
) -> None:
    server.declare("g", replicas=2, egress="internet")
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    ((_, command),) = server.probed
    assert command[-3:] == ["internet", "tcp 192.0.2.9 8080", "tcp 192.0.2.1 6443"]


async def test_ready_group_is_not_probed_again_by_the_next_operator(server: Any, operator: InMemoryOperator) -> None:
    server.declare("g", replicas=2)
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    second = InMemoryOperator(server)
    try:
        await asyncio.sleep(0.2)
        assert len(server.probed) == 1
    finally:
        await second.stop()


async def test_failed_check_is_repeated(server: Any, operator: InMemoryOperator) -> None:
    server.error_rate = 0.3
    server.declare("g", replicas=2)
    await run_until(server, operator, lambda: ready(server).get("status") == "True")
    assert server.probed


def test_name_servers_are_read_from_the_operators_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("search a.b\nnameserver 192.0.2.53\noptions ndots:5\n")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert own_name_servers(resolv_conf) == []
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    assert own_name_servers(resolv_conf) == ["192.0.2.53"]
