"""Fixtures for faults: an operator of the test's own, Pods, claimed sandboxes, and the cluster's daemons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from swerl_agent.sandbox import Claim, Sandbox
from swerl_kube import KubeClient

from tests.chaos.components import Components
from tests.control_plane.conftest import crds, no_installed_operator, operator, operator_options
from tests.control_plane.exec.conftest import IMAGE, client, make_pod, pod, session
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import User, user

__all__ = [
    "client",
    "crds",
    "make_pod",
    "no_installed_operator",
    "operator",
    "operator_options",
    "pod",
    "session",
    "user",
]

RESOURCES = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}


@pytest.fixture
def components(kubeconfig: str) -> Components:
    return Components(kubeconfig)


@pytest.fixture
def claim(client: KubeClient, namespace: str, kubeconfig: str, operator: Operator) -> Callable[..., Claim]:
    """Claims sandboxes in the module's namespace, served by the module's operator."""

    def claim(count: int = 1, **options: Any) -> Claim:
        defaults = {
            "client": client,
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "resources": RESOURCES,
            **options,
        }
        return Sandbox.claim(IMAGE, count, **defaults)

    return claim


@pytest.fixture
async def kept_running(operator: Operator) -> AsyncIterator[list[str]]:
    """The operator is started again when it ends, as its Deployment does; what its log said last, once per end."""
    ends: list[str] = []

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.5)
            if not operator.alive:
                ends.append(operator.log.read_text()[-2000:])
                operator.start()

    task = asyncio.create_task(watch())
    yield ends
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def wait_until_nothing_left(
    user: User, seconds: float = 60, *, policies: bool = True, ignore: frozenset[str] | set[str] = frozenset()
) -> None:
    """Return when the user's namespace holds no SweSandbox, Pod, Lease or NetworkPolicy `but` those (kind/name).

    Fails after `seconds`.
    """

    kinds = {"swesandboxes": "swerl.dev/v1alpha1", "pods": "v1", "leases": "coordination.k8s.io/v1"}
    if policies:  # the operator keeps them for the next group, for half a minute
        kinds["networkpolicies"] = "networking.k8s.io/v1"

    async def remaining() -> list[str]:
        found = [
            f"{kind}/{item['metadata']['name']}"
            for kind, api in kinds.items()
            for item in await user.api.list(api, kind, user.namespace)
        ]
        return [name for name in found if name not in {"leases/swe-rl-operator", *ignore}]

    await user.until(remaining, lambda names: not names, seconds)
