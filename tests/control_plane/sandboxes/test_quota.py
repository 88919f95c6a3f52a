"""A namespace whose ResourceQuota is exhausted: groups wait, name the quota, and continue when it has room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swerl_agent.sandbox import CapacityExhausted, SandboxGroup
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import KubeClient

from tests.control_plane.sandboxes.conftest import IMAGE, User

Body = dict[str, Any]
Reading = Callable[[Body, str], tuple[str, str, str]]
QUOTA = "two-pods"


@pytest.fixture
async def quota(user: User) -> Body:
    """Room for two Pods in the namespace, counted by the quota controller."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA, "namespace": user.namespace},
        "spec": {"hard": {"pods": "2"}},
    }
    await user.api.create("resourcequotas", body)

    async def quota_status() -> Body:
        return dict(await user.api.get("v1", "resourcequotas", user.namespace, QUOTA))

    found: Body = await user.until(quota_status, lambda quota: quota.get("status", {}).get("hard") == {"pods": "2"}, 60)
    return found


def waits_for_quota(condition: tuple[str, str, str]) -> bool:
    state, reason, message = condition
    return (state, reason) == ("False", "WaitingForCapacity") and QUOTA in message and "pods=2" in message


async def test_group_without_quota_waits_and_continues_pod_by_pod(
    user: User, operator: Any, quota: Body, reading: Reading, kubeconfig: str
) -> None:
    await user.declare("first", job="a", replicas=2)
    await user.phase("first", "Ready")
    await user.declare("second", job="b", replicas=2)
    status = await user.phase("second", "Pending", 60)
    assert waits_for_quota(reading(status, "Admitted")) and waits_for_quota(reading(status, "Ready")), status
    assert not await user.pods("second")
    assert QUOTA in await failed_claim_message(user, kubeconfig)

    await user.release("swesb-first-0")
    await user.until(lambda: user.pods("second"), lambda pods: len(pods) == 1, 60)
    status = await user.until(lambda: user.status("second"), lambda s: s.get("phase") == "Admitted", 60)
    assert waits_for_quota(reading(status, "Ready")), "one of its Pods is there, the other waits"
    await user.release("swesb-first-1")
    status = await user.phase("second", "Ready")
    assert (status["replicas"], status["failed"]) == (2, 0)
    for name in ("first", "second"):
        await user.delete(name)


async def failed_claim_message(user: User, kubeconfig: str) -> str:
    """The message for a client that waits for seconds only."""
    spec = SweSandboxSpec.model_validate({"image": IMAGE, "workdir": "/"})
    async with KubeClient.from_environment(kubeconfig) as client:
        group = await SandboxGroup.declare(
            client, name="third", spec=spec, labels={"swerl.dev/job": "c"}, namespace=user.namespace
        )
        try:
            with pytest.raises(CapacityExhausted) as caught:
                await group.claim(0, timeout=20)
        finally:
            await group.delete()
    return str(caught.value)
