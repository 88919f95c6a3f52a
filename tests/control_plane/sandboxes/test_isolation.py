"""The isolation of a sandbox from inside: its user namespace, and the network that it reaches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from .conftest import inside


@pytest.fixture(scope="module")
def operator_options() -> dict[str, str]:
    return {"sandbox_host_users": "false"}


OPEN: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "opens-all"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]},
}


async def test_root_of_a_sandbox_is_unprivileged_on_its_node(user: Any, kubeconfig: str) -> None:
    await user.declare("mapped", replicas=2)
    await user.declare("plain", hostUsers=True)
    for name in ("mapped", "plain"):
        await user.phase(name, "Ready")
    maps = [await inside(kubeconfig, user.namespace, f"swesb-mapped-{i}", "cat", "/proc/self/uid_map") for i in (0, 1)]
    spans = [tuple(int(number) for number in text.split()) for text in maps]
    for first, outside, count in spans:
        assert first == 0 and outside >= 65536 and count == 65536
    assert spans[0][1] != spans[1][1], "no two sandboxes share their users"
    assert (await inside(kubeconfig, user.namespace, "swesb-mapped-0", "id", "-u")).strip() == "0"
    plain = await inside(kubeconfig, user.namespace, "swesb-plain-0", "cat", "/proc/self/uid_map")
    assert plain.split()[:2] == ["0", "0"], "the spec of a group overrides the operator's option"
    for name in ("mapped", "plain"):
        await user.delete(name)


@pytest.fixture
async def opened(user: Any) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Another's policy opens the namespace; what is given closes it again."""
    metadata = OPEN["metadata"] | {"namespace": user.namespace}
    await user.api.create("networkpolicies", OPEN | {"metadata": metadata})

    async def close() -> None:
        await user.api.delete("networking.k8s.io/v1", "networkpolicies", user.namespace, metadata["name"])

    yield close
    await close()


async def test_group_opened_by_another_policy_is_not_ready_until_that_is_deleted(
    user: Any, reading: Any, opened: Callable[[], Awaitable[Any]]
) -> None:
    await user.declare("opened", replicas=2)

    def refused(status: dict[str, Any]) -> bool:
        return bool(status) and reading(status, "Ready")[1] == "NotIsolated"

    status = await user.until(lambda: user.status("opened"), refused, 60)
    assert (status["phase"], status["ready"]) == ("Admitted", 2)
    assert "6443" in reading(status, "Ready")[2], "the API server's own address"
    await user.until(lambda: user.events("opened"), lambda found: "NotIsolated" in {e["reason"] for e in found}, 60)
    await opened()
    await user.phase("opened", "Ready")
    await user.delete("opened")
