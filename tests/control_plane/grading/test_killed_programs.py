"""Programs that grade are killed, or lose their Lease: nothing stays, and nothing runs without its policy."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from dataclasses import replace

import pytest
from swerl_agent.grading import Grader
from swerl_agent.sandbox import LeaseLost
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from tests.control_plane.exec.conftest import until
from tests.control_plane.operator_process import Operator

from .conftest import settings
from .task_image import Repository

CLEANUP_SECONDS = 60.0  # seconds until nothing of a killed program is left
KINDS = {
    "pods": "v1",
    "jobs": "batch/v1",
    "configmaps": "v1",
    "networkpolicies": "networking.k8s.io/v1",
    "leases": "coordination.k8s.io/v1",
}
CLUSTER_OBJECTS = {"kube-root-ca.crt", "swe-rl-operator"}


@pytest.fixture
def long_task(task: Task, repository: Repository) -> Task:
    """The task, whose tests take ten minutes."""
    return replace(repository.task(task.image, command="sleep 600"), instance_id="calc__calc-9")


async def names(client: KubeClient, namespace: str, kind: str) -> list[str]:
    """Objects of a kind that a program may have made."""
    found = [item["metadata"]["name"] for item in await client.list(KINDS[kind], kind, namespace)]
    return [name for name in found if name not in CLUSTER_OBJECTS]


async def present(client: KubeClient, namespace: str) -> set[str]:
    """The kinds of which there are any."""
    return {kind for kind in KINDS if await names(client, namespace, kind)}


async def test_killed_program_leaves_no_grading_objects(
    operator: Operator, client: KubeClient, kubeconfig: str, namespace: str, long_task: Task
) -> None:
    async def all_made() -> bool:
        return await present(client, namespace) == KINDS.keys()

    async def all_gone() -> bool:
        return not await present(client, namespace)

    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"{__package__}.sleeper",
        env=os.environ | {"KUBECONFIG": kubeconfig},
        stdin=asyncio.subprocess.PIPE,
    )
    try:
        assert program.stdin is not None
        program.stdin.write(pickle.dumps((namespace, long_task)))
        program.stdin.close()
        await until(all_made, "the grading runs", 60)
    finally:
        program.kill()
        await program.wait()
    (policy,) = await names(client, namespace, "networkpolicies")
    killed = time.monotonic()
    while await names(client, namespace, "pods"):
        assert await names(client, namespace, "networkpolicies") == [policy], "it must outlive the Pods it is for"
        assert time.monotonic() - killed < CLEANUP_SECONDS
        await asyncio.sleep(0.2)
    await until(all_gone, "nothing is left", CLEANUP_SECONDS - (time.monotonic() - killed))
    print(f"gone after {time.monotonic() - killed:.0f} s")


async def test_nothing_is_graded_without_the_lease(
    client: KubeClient, kubeconfig: str, namespace: str, task: Task
) -> None:
    async with (
        owning_lease(namespace, "lost", kubeconfig=kubeconfig) as lease,
        Grader(client, namespace, settings(), lease=lease) as grader,
    ):
        assert not (await grader.grade(task, "")).resolved
        await client.delete(KINDS["leases"], "leases", namespace, lease.name)
        with pytest.raises(LeaseLost, match=f"{lease.name} was lost: it was deleted"):
            await asyncio.wait_for(asyncio.wrap_future(lease.lost), 30)
        with pytest.raises(LeaseLost):
            await grader.grade(task, task.ground_truth.patch)


async def test_lease_that_cannot_be_made_is_an_error_at_once(kubeconfig: str) -> None:
    started = time.monotonic()
    with pytest.raises(LeaseLost, match=r"no-such-namespace/nobody-.* cannot be created: .*404"):
        async with owning_lease("no-such-namespace", "nobody", kubeconfig=kubeconfig):
            raise AssertionError("it is held")
    assert time.monotonic() - started < 10
