"""Groups of real sandboxes, made by a real operator: claimed isolated and scrubbed, released, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from swerl_agent.sandbox import (
    ClaimEnded,
    ImagePullFailed,
    NotIsolated,
    NotReady,
    PodGone,
    PodReplaced,
    SandboxGroup,
    Session,
    check_isolation,
)
from swerl_agent.sandbox.isolation import api_addresses
from swerl_agent.sandbox.pod import ready, restarts_of
from swerl_agent.sandbox.watch import SandboxWatch
from swerl_api import API_VERSION
from swerl_api.names import JOB_LABEL
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import KubeClient, NotFound

from tests.control_plane.exec.conftest import IMAGE, at_once, connect, until
from tests.control_plane.operator_process import Operator

if TYPE_CHECKING:
    from .conftest import MakePod

RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
LABELS = {"swerl.dev/job": "claims"}
REPOSITORY = (
    "mkdir -p /testbed && cd /testbed && git init -q -b main && git commit -q --allow-empty -m base && "
    "git commit -q --allow-empty -m fix && git tag fixed && git reset -q --hard HEAD~1; exec sleep 3600"
)


@pytest.fixture
async def declare(client: KubeClient, namespace: str, operator: Operator) -> AsyncIterator[Any]:
    """Declares groups that are deleted with the test."""
    groups: list[SandboxGroup] = []

    async def declare(name: str, **spec: Any) -> SandboxGroup:
        fields = {"image": IMAGE, "resources": RESOURCES, "command": ["sh", "-c", REPOSITORY]} | spec
        group = await SandboxGroup.declare(
            client,
            name=name,
            spec=SweSandboxSpec.model_validate(fields),
            labels=LABELS,
            namespace=namespace,
        )
        groups.append(group)
        return group

    yield declare
    for group in groups:
        await group.delete()


async def test_claimed_sandbox_is_isolated_and_scrubbed(declare: Any, client: KubeClient, namespace: str) -> None:
    group = await declare("claimed", replicas=2)
    sessions = await asyncio.gather(*(group.claim(ordinal) for ordinal in range(2)))
    for session in sessions:
        log = await session.run("git log --all --format=%s; git tag", timeout=60, cwd="/testbed")
        assert log.stdout == b"base\n"
        assert "@sha256:" in session.image
        await check_isolation(session, await api_addresses(client))
    node = (await client.get("v1", "pods", namespace, group.pod_name(0)))["spec"]["nodeName"]
    watch = await SandboxWatch.shared(client, namespace, LABELS[JOB_LABEL])
    assert watch.by_node()[node]["ready"] >= 2
    await group.release(0)
    await group.release(0)
    with pytest.raises(NotFound):
        await client.get("v1", "pods", namespace, "swesb-claimed-0")
    assert (await client.get("v1", "pods", namespace, "swesb-claimed-1"))["status"]["phase"] == "Running"


async def test_allowed_egress_skips_the_isolation_check(declare: Any, client: KubeClient) -> None:
    group = await declare("open", egress="allow", scrubGit=False)
    session = await group.claim(0, timeout=120)
    assert (await session.run("git tag", timeout=60, cwd="/testbed")).stdout == b"fixed\n"
    with pytest.raises(NotIsolated, match=r"tcp .*6443"):
        await check_isolation(session, await api_addresses(client), settle=0)


async def restarted(client: KubeClient, namespace: str, group: SandboxGroup) -> None:
    """Have the Pod's status say what a kubelet says whose runtime was away when the container began."""
    name = group.pod_name(0)

    async def restart_is_reported() -> bool:
        pod = group._watch.pod(name)
        if pod is None or not ready(pod):
            return False
        statuses = [status | {"restartCount": 1} for status in pod["status"]["containerStatuses"]]
        body = {"status": {"containerStatuses": statuses}}
        await client.patch("v1", "pods", namespace, name, body, subresource="status")
        await asyncio.sleep(0.5)  # for the watch
        return restarts_of(group._watch.pod(name) or pod) == 1

    await until(restart_is_reported, "the container was restarted")


async def test_restart_before_the_first_use_keeps_the_sandbox(declare: Any, client: KubeClient, namespace: str) -> None:
    group = await declare("again", egress="allow", scrubGit=False)
    await restarted(client, namespace, group)
    session = await group.claim(0, timeout=60)
    assert (await session.run("echo served", timeout=60)).stdout == b"served\n"
    later = await SandboxGroup.adopt(client, name="again", spec=group.spec, labels=LABELS, namespace=namespace)
    assert later is not None
    await restarted(client, namespace, later)
    with pytest.raises(PodReplaced, match="was restarted"):
        await later.claim(0, timeout=60)


async def test_pod_without_policy_is_not_isolated(client: KubeClient, make_pod: MakePod, kubeconfig: str) -> None:
    async with Session(connect(client, await make_pod())) as session:
        with pytest.raises(NotIsolated) as caught:
            await check_isolation(session, await api_addresses(client), settle=0)
    assert "NetworkPolicy" in str(caught.value) and "dns" in str(caught.value)


async def test_impossible_claim_names_the_cause(declare: Any) -> None:
    group = await declare("missing", image="registry.swerl:5000/swe-rl/no-such-image:1")
    with pytest.raises((ImagePullFailed, NotReady), match=r"(?i)pull|image"):
        await group.claim(0, timeout=30)
    huge = await declare("huge", resources={"requests": {"cpu": "10k"}, "limits": {"cpu": "10k"}})
    with pytest.raises(NotReady, match=r"(?i)insufficient cpu|huge is"):
        await huge.claim(0, timeout=5)


async def test_prefetched_sandbox_is_claimed_at_once(declare: Any, client: KubeClient, namespace: str) -> None:
    group = await declare("ahead", replicas=3)
    group.prefetch()
    first = await group.claim(0)
    await asyncio.wait(list(group._prefetched.values()), timeout=60)
    second = await at_once(group.claim(1))
    for session in (first, second):
        assert (await session.run("git -C /testbed log --oneline --all | wc -l", timeout=30)).stdout == b"1\n"
    await group.release(2)  # never asked for
    pods = await client.list("v1", "pods", namespace, labels="swerl.dev/sandbox=ahead")
    alive = {pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}
    assert alive == {"swesb-ahead-0", "swesb-ahead-1"}


async def test_failed_prefetch_is_raised_by_its_claim(declare: Any) -> None:
    group = await declare("unpulled", image="registry.swerl:5000/swe-rl/no-such-image:1", replicas=2)
    group.prefetch(timeout=20)
    with pytest.raises((ImagePullFailed, NotReady), match=r"(?i)pull|image"):
        await group.claim(0)


async def test_deleted_group_ends_the_claim(declare: Any, client: KubeClient) -> None:
    group = await declare("dying", replicas=1)
    session = await group.claim(0, timeout=120)
    running = asyncio.create_task(session.run("sleep 300", timeout=400))
    await asyncio.sleep(1)
    await group.delete()
    with pytest.raises((ClaimEnded, PodGone, asyncio.CancelledError)):
        await asyncio.wait_for(running, 60)


async def test_cancelled_declaration_leaves_no_group(client: KubeClient, namespace: str) -> None:
    spec = SweSandboxSpec.model_validate({"image": IMAGE, "resources": RESOURCES})
    interrupted = 0
    for number in range(40):
        declaring = asyncio.create_task(
            SandboxGroup.declare(client, name=f"cut-{number}", spec=spec, labels=LABELS, namespace=namespace)
        )
        await asyncio.sleep(number / 5000)
        declaring.cancel()
        try:
            await (await declaring).delete()
        except asyncio.CancelledError:
            interrupted += 1
    remaining = await client.list(API_VERSION, "swesandboxes", namespace)
    assert interrupted and not [group for group in remaining if group["metadata"]["name"].startswith("cut-")]
