"""Sandboxes that a driver declares ahead: there when they are asked for, and a bad image costs its own prompt only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from swerl_agent.sandbox import ImagePullFailed
from swerl_agent.tasks import GroundTruth, Task
from swerl_api import API_VERSION, SweRLJobSpec
from swerl_kube import KubeClient
from swerl_trainer.job import Job
from swerl_trainer.rollout.cluster import CountedGroup, KubernetesSandboxes

from tests.control_plane.exec.conftest import IMAGE, at_once
from tests.control_plane.operator_process import Operator

NEVER_PULLED = r"never-pulled:2.*(ErrImageNeverPull|imagePullPolicy is Never)"  # what the node, or the group, says
SECONDS = 25  # for an image that is not there and must not be pulled: with time to spare for a busy node
LEASES = "coordination.k8s.io/v1"
ROOT = Path(__file__).parents[3]
RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}


def task(image: str) -> Task:
    return Task("t-1", "o/r", "0" * 40, "1", "fix it", image, GroundTruth("", "", "", ("t",), ()))


@pytest.fixture
async def job(client: KubeClient, namespace: str, operator: Operator) -> AsyncIterator[Job]:
    """A job that lacks its volume: the test is its driver."""
    documents = yaml.safe_load_all((ROOT / "swerljob.yaml").read_text())
    spec = next(document["spec"] for document in documents if document["kind"] == "SweRLJob")
    sandbox_fields = {"resources": RESOURCES, "workdir": "/", "scrubGit": False, "egress": "none", "maxConcurrent": 16}
    spec |= {"sandbox": spec.get("sandbox", {}) | sandbox_fields}
    body = {"apiVersion": API_VERSION, "kind": "SweRLJob", "metadata": {"name": "ahead"}, "spec": spec}
    job_object = await client.create("swerljobs", body, namespace=namespace)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    lease_spec = {"holderIdentity": "test", "leaseDurationSeconds": 600, "renewTime": stamp}
    lease = {"apiVersion": LEASES, "kind": "Lease", "metadata": {"name": "ahead-1"}, "spec": lease_spec}
    await client.create("leases", lease, namespace=namespace)
    uid = job_object["metadata"]["uid"]
    yield Job("ahead", namespace, uid, 1, "ahead-1", SweRLJobSpec.model_validate(spec))
    await client.delete(LEASES, "leases", namespace, "ahead-1")
    await client.delete(API_VERSION, "swerljobs", namespace, "ahead")


@pytest.fixture
def sandboxes(client: KubeClient, job: Job) -> KubernetesSandboxes:
    """What the job's rollout workers declare with."""
    return KubernetesSandboxes(client, job)


async def ready(group: CountedGroup) -> None:
    """Wait until both sandboxes of the group wait to be asked for."""
    deadline = time.monotonic() + 90
    while len(group._group._ready_since) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_image_that_cannot_be_pulled_fails_only_its_own_prompt(sandboxes: KubernetesSandboxes) -> None:
    bad = await sandboxes.declare("ahead-1-g0", task("registry.swerl:5000/no/such-image:1"), 2)
    good = await sandboxes.declare("ahead-1-g1", task(IMAGE), 2)
    try:
        await ready(good)
        await asyncio.sleep(1)
        assert good.age >= 1
        session = await at_once(good.claim(0))
        assert (await session.run("echo in time", timeout=30)).stdout == b"in time\n"
        assert good.idle_seconds >= 1
        with pytest.raises(ImagePullFailed, match="no/such-image"):
            await bad.claim(0)
        assert (await session.run("echo still here", timeout=30)).stdout == b"still here\n"
    finally:
        await asyncio.gather(bad.delete(), good.delete())
    assert good.idle_seconds >= 2, "the sandbox that no claim requested has waited, too"
    assert bad.idle_seconds == 0


async def test_image_that_must_not_be_pulled_is_an_error_within_seconds(client: KubeClient, job: Job) -> None:
    never = job.spec.sandbox.model_copy(update={"image_pull_policy": "Never"})
    strict = KubernetesSandboxes(client, replace(job, spec=job.spec.model_copy(update={"sandbox": never})))
    started = time.monotonic()
    group = await strict.declare("ahead-1-g2", task("registry.swerl:5000/swe-rl/never-pulled:2"), 2)
    try:
        for ordinal in range(2):
            with pytest.raises(ImagePullFailed, match=NEVER_PULLED) as caught:
                await group.claim(ordinal)
            assert caught.value.code == "image_pull_failed"
        assert time.monotonic() - started < SECONDS
    finally:
        await group.delete()
