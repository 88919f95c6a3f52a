"""Pods of an evaluation that admission refuses are a condition, and no longer than they are refused."""

from __future__ import annotations

import pytest
from swerl_kube.errors import answer_error

from .conftest import Spec
from .test_reconciler import Body, ReconciledEval, find

REFUSED_AT, LATER = "2026-01-01T00:00:05Z", "2026-01-01T00:01:00Z"


@pytest.fixture
async def refused(spec: Spec) -> ReconciledEval:
    """An evaluation with four shards, of which the API server has refused one."""
    reconciled = ReconciledEval(spec)
    await reconciled.reconcile(2)
    reconciled.pass_preflight()
    await reconciled.reconcile()
    job = {"kind": "Job", "name": "nightly-shards"}
    event = {"involvedObject": job, "reason": "FailedCreate", "message": "exceeded quota: small"}
    reconciled.api.kept["events", "refusal"] = {"metadata": {}, "lastTimestamp": REFUSED_AT, **event}
    return reconciled


def add_shard(reconciled: ReconciledEval, index: int, phase: str, created: str) -> None:
    labels = {"swerl.dev/evaluation": "nightly", "swerl.dev/role": "shard"}
    metadata = {"labels": labels | {"batch.kubernetes.io/job-name": "nightly-shards"}, "creationTimestamp": created}
    name = f"nightly-shards-{index}"
    reconciled.api.kept["pods", name] = {"metadata": metadata | {"name": name}, "status": {"phase": phase}}


async def reason(reconciled: ReconciledEval) -> str:
    return str(find(await reconciled.reconcile(), "Running")["reason"])


async def test_refusal_is_a_condition_while_other_shards_run(refused: ReconciledEval) -> None:
    add_shard(refused, 0, "Running", REFUSED_AT)
    add_shard(refused, 1, "Succeeded", REFUSED_AT)
    running = find(await refused.reconcile(), "Running")
    assert running["reason"] == "PodRefused" and "exceeded quota: small" in running["message"]


async def test_refusal_is_over_when_all_shards_have_pods(refused: ReconciledEval) -> None:
    for index in range(4):
        add_shard(refused, index, "Running", REFUSED_AT)
    assert await reason(refused) == "ShardsRunning"


async def test_pod_that_was_made_since_refutes_the_refusal(refused: ReconciledEval) -> None:
    for index in range(3):
        add_shard(refused, index, "Running", LATER)
    add_shard(refused, 3, "Failed", LATER)  # its replacement comes after a pause
    assert await reason(refused) == "ShardsRunning"


async def test_shards_that_are_over_need_no_pods(refused: ReconciledEval) -> None:
    assert await reason(refused) == "PodRefused"
    refused.api.kept["jobs", "nightly-shards"]["status"] = {"succeeded": 1, "failedIndexes": "0,2-3"}
    assert await reason(refused) == "ShardsRunning"


async def test_webhook_that_does_not_answer_is_named(spec: Spec) -> None:
    reconciled = ReconciledEval(spec)

    async def create(resource: str, body: Body) -> Body:
        raise answer_error("POST", 500, '{"kind": "Status", "message": "failed calling webhook: refused"}')

    reconciled.api.create = create  # type: ignore[method-assign]
    status = await reconciled.reconcile(2)
    found = find(status, "Validated")
    assert (status["phase"], found["reason"]) == ("Blocked", "RequestRefused") and "webhook" in found["message"]
