"""Creates jobs, suspends, resumes and cancels them, and starts failed ones again.

Guarantees: each function makes one change, or raises JobCommandError and makes none; a request that is already
fulfilled is no error.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

from swerl_api import API_VERSION, JobCondition, JobReason, find_condition
from swerl_api.names import RETRY_ANNOTATION
from swerl_kube import Conflict, Json, KubeClient, NotFound

from .errors import JobCommandError
from .reasons import seconds_since, status_of

RESOURCE = "swerljobs"
POLL_SECONDS = 1.0


async def find_job(client: KubeClient, namespace: str, name: str) -> Json:
    """The SweRLJob; raises JobCommandError where there is none."""
    try:
        return await client.get(API_VERSION, RESOURCE, namespace, name)
    except NotFound as error:
        there = [str(job["metadata"]["name"]) for job in await list_jobs(client, namespace)]
        others = f"there are: {', '.join(sorted(there)[:10])}" if there else "it has none; name another with -n"
        raise JobCommandError(f"namespace {namespace} has no SweRLJob {name}; {others}") from error


async def list_jobs(client: KubeClient, namespace: str | None) -> list[Json]:
    """Every SweRLJob of the namespace, of all with None; raises JobCommandError where the kind is not served."""
    try:
        return await client.list(API_VERSION, RESOURCE, namespace)
    except NotFound as error:
        text = "the cluster does not serve SweRLJobs; install the chart: helm install swe-rl charts/"
        raise JobCommandError(text) from error


async def submit(client: KubeClient, namespace: str, job: Json) -> Json:
    """Create the job; the object as it was stored."""
    name = job["metadata"]["name"]
    try:
        return await client.create(RESOURCE, _placed(job, namespace))
    except Conflict as error:
        raise JobCommandError(
            f"namespace {namespace} has a SweRLJob {name}; use another name, or `swerl cancel {name}` first"
        ) from error


def _placed(job: Json, namespace: str) -> Json:
    return {key: job[key] for key in ("apiVersion", "kind", "spec")} | {
        "metadata": job["metadata"] | {"namespace": namespace}
    }


async def suspend(client: KubeClient, namespace: str, name: str) -> bool:
    """Ask the operator to delete the running attempt; checkpoints stay. False if the job is suspended already."""
    return await _set_suspend(client, namespace, name, True, "be suspended")


async def resume(client: KubeClient, namespace: str, name: str) -> bool:
    """Ask the operator to start the next attempt of a suspended job. False if the job is not suspended."""
    return await _set_suspend(client, namespace, name, False, "be resumed")


async def _set_suspend(client: KubeClient, namespace: str, name: str, value: bool, what: str) -> bool:
    job = await find_job(client, namespace, name)
    _refuse_finished(job, what)
    if bool(job["spec"].get("suspend")) == value:
        return False
    await client.patch(API_VERSION, RESOURCE, namespace, name, {"spec": {"suspend": value}})
    return True


async def cancel(client: KubeClient, namespace: str, name: str, *, seconds: float) -> bool:
    """Delete the job with its Pods, and wait for their end; what it wrote to its volume stays.

    False if Pods are left after `seconds`; 0 does not wait.
    """
    job = await find_job(client, namespace, name)
    await client.delete(API_VERSION, RESOURCE, namespace, name, uid=job["metadata"]["uid"])
    end = time.monotonic() + seconds
    while await client.list("v1", "pods", namespace, labels=f"swerl.dev/job={name}"):
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _refuse_finished(job: Json, what: str) -> None:
    status, name = status_of(job), job["metadata"]["name"]
    if status.phase in ("Complete", "Failed"):
        remedy = f"`swerl retry {name}` starts it again" if status.phase == "Failed" else "submit another job"
        raise JobCommandError(f"SweRLJob {name} is {status.phase} and cannot {what}; {remedy}")


async def retry(client: KubeClient, namespace: str, name: str) -> int:
    """Ask the operator for another attempt of a failed job, from its newest checkpoint; the attempt that failed."""
    job = await find_job(client, namespace, name)
    status = status_of(job)
    if status.phase != "Failed" or status.attempt is None:
        raise JobCommandError(_no_retry(name, status.phase))
    failed = find_condition(status.conditions, JobCondition.FAILED)
    if failed is not None and failed.reason == JobReason.DEADLINE_EXCEEDED and _is_over(job, status.start_time):
        raise JobCommandError(
            f"SweRLJob {name} exceeded spec.activeDeadlineSeconds {job['spec'].get('activeDeadlineSeconds')}; raise it"
            " first: kubectl edit swerljob"
        )
    annotations = {"metadata": {"annotations": {RETRY_ANNOTATION: str(status.attempt)}}}
    await client.patch(API_VERSION, RESOURCE, namespace, name, annotations)
    return status.attempt


def _no_retry(name: str, phase: str | None) -> str:
    remedy = {
        "Suspended": f"`swerl resume {name}` continues it",
        "Complete": "raise spec.algorithm.steps in a new job to train on",
    }.get(phase or "", "the operator retries it by itself, spec.retries times")
    return f"SweRLJob {name} is {phase or 'Pending'}; only a Failed one is retried on request; {remedy}"


def _is_over(job: Json, start: str | None) -> bool:
    seconds, passed = job["spec"].get("activeDeadlineSeconds"), seconds_since(start, datetime.now(UTC))
    return seconds is not None and passed is not None and passed >= seconds
