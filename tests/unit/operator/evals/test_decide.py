"""The decision, state by state: the test holds the clock, the cluster and Ray."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from swerl_api import EvalProgress, SweEvalSpec, SweEvalStatus, find_condition
from swerl_operator.checks.preflight import Preflight
from swerl_operator.evals.decide import EvalAction, EvalDecision, decide
from swerl_operator.evals.observe import EvalObservation, ObservedEngines
from swerl_operator.problem import Problem
from swerl_operator.ray.jobs import DriverState

from .conftest import Spec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EARLIER = "2029-12-31T23:59:00Z"  # one minute before NOW
PASSED = Preflight("passed")
CLUSTER: dict[str, Any] = {"metadata": {"name": "nightly-engines"}}
HEAD: dict[str, Any] = {
    "metadata": {"name": "head", "labels": {"ray.io/node-type": "head", "ray.io/cluster": "nightly-engines"}},
    "status": {"phase": "Running", "podIP": "10.0.0.1"},
}


def job(name: str, **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


def ended(name: str, how: str, message: str = "") -> dict[str, Any]:
    return job(name, conditions=[{"type": how, "status": "True", "message": message}])


def pod(role: str = "shard", **status: Any) -> dict[str, Any]:
    labels = {"swerl.dev/role": role, "batch.kubernetes.io/job-name": "nightly-shards"}
    return {"metadata": {"name": "nightly-shards-0-x", "labels": labels}, "status": status}


def engines(**observed: Any) -> ObservedEngines:
    return ObservedEngines(
        "uid-1-0", **({"cluster": CLUSTER, "pods": [HEAD], "driver": DriverState("running")} | observed)
    )


def started(**fields: Any) -> SweEvalStatus:
    return SweEvalStatus.model_validate({"startTime": EARLIER} | fields)


def step(spec: Spec, previous: SweEvalStatus, **observed: Any) -> EvalDecision:
    return decide(SweEvalSpec.model_validate(spec), previous, 1, EvalObservation(NOW, **observed))


def condition(decision: EvalDecision, type: str) -> tuple[str, str]:
    found = find_condition(decision.builder.status.conditions, type)
    assert found is not None, type
    return found.status, found.reason


def message(decision: EvalDecision, type: str) -> str:
    found = find_condition(decision.builder.status.conditions, type)
    assert found is not None, type
    return found.message


def test_missing_prerequisite_blocks_and_starts_nothing(spec: Spec) -> None:
    decision = step(spec, started(), prerequisite_problems=[Problem("A", "one"), Problem("B", "two")])
    assert decision.builder.status.phase == "Blocked"
    assert message(decision, "Validated") == "one; two"
    assert decision.actions == (EvalAction.DELETE_PREFLIGHT,)


def test_earlier_evaluation_of_the_name_is_waited_for(spec: Spec) -> None:
    decision = step(spec, started(), leftovers=2, preflight=PASSED)
    assert decision.actions == () and condition(decision, "Validated") == ("False", "NameInUse")


def test_preflight_precedes_the_shards(spec: Spec) -> None:
    assert step(spec, started()).actions == (EvalAction.CREATE_PREFLIGHT,)
    waiting = step(spec, started(), preflight=Preflight("waiting", Problem("ImagePullFailed", "x")))
    assert waiting.actions == () and condition(waiting, "ImagesReady") == ("False", "ImagePullFailed")
    assert step(spec, started(), preflight=Preflight("outdated")).actions == (EvalAction.DELETE_PREFLIGHT,)
    passed = step(spec, started(), preflight=PASSED)
    assert passed.actions == (EvalAction.ENSURE_ACCOUNT, EvalAction.CREATE_SHARDS, EvalAction.DELETE_PREFLIGHT)
    assert condition(passed, "ModelReady") == ("True", "EndpointGiven")


def test_images_of_a_set_are_waited_for(spec: Spec) -> None:
    decision = step(spec, started(), image_set_problem=Problem("WaitingForImages", "3 to go"), preflight=PASSED)
    assert decision.actions == () and condition(decision, "ImagesReady") == ("False", "WaitingForImages")


def test_progress_is_summed_over_the_shards(spec: Spec) -> None:
    shard_progress = [
        EvalProgress(total=40, done=4, resolved=1, errors=2),
        EvalProgress(total=40, done=6, resolved=3, errors=0),
    ]
    decision = step(spec, started(), shards=job("nightly-shards", succeeded=1), shard_progress=shard_progress)
    status = decision.builder.status
    assert (status.progress, status.resolved, status.errors, status.rate) == ("10/40", 4, 2, 0.4)
    assert (status.phase, status.shards_done, decision.actions) == ("Running", 1, ())


def test_finished_shards_are_merged_and_the_summary_sets_the_totals(spec: Spec) -> None:
    complete = ended("nightly-shards", "Complete")
    merging = step(spec, started(), shards=complete)
    assert merging.actions == (EvalAction.CREATE_MERGE,) and merging.builder.status.phase == "Merging"
    merged_progress = EvalProgress(total=40, done=39, resolved=20, errors=1, rate=0.51, pass_at_k={"1": 0.51, "4": 0.7})
    merged = ended("nightly-merge", "Complete")
    incomplete = step(spec, started(), shards=complete, merge=merged)
    assert incomplete.builder.status.phase == "Merging"
    done = step(spec, started(), shards=complete, merge=merged, merged_progress=merged_progress)
    assert condition(done, "Complete") == ("True", "AllResults")
    status = done.builder.status
    assert (status.rate, status.pass_at_k, status.progress) == (0.51, {"1": 0.51, "4": 0.7}, "39/40")


def test_failed_shard_is_reported_with_its_message(spec: Spec) -> None:
    state = {"terminated": {"exitCode": 2, "message": "swerl: no task left"}}
    failed = pod(phase="Failed", containerStatuses=[{"name": "shard", "image": "i", "state": state}])
    decision = step(spec, started(), shards=ended("nightly-shards", "Failed", "policy"), pods=[failed])
    assert condition(decision, "Failed") == ("True", "ShardsFailed")
    assert "swerl: no task left" in message(decision, "Failed") and "policy" in message(decision, "Failed")


def test_new_shards_wait_for_earlier_pods(spec: Spec) -> None:
    decision = step(spec, started(), preflight=PASSED, pods=[pod()])
    assert decision.actions == () and decision.requeue_after


def test_engines_start_before_shards(engine_spec: Spec) -> None:
    none = engines(cluster=None, pods=[])
    created = step(engine_spec, started(), preflight=PASSED, engines=none, checkpoint="/swerl/output/c")
    assert created.actions == (EvalAction.ENSURE_ACCOUNT, EvalAction.CREATE_ENGINES)
    assert created.builder.status.checkpoint == "/swerl/output/c"
    starting = step(engine_spec, started(), engines=engines(driver=DriverState("unreachable")))
    assert starting.actions == ()
    reachable = step(engine_spec, started(), engines=engines(driver=DriverState("absent")))
    assert reachable.actions == (EvalAction.SUBMIT,)
    adopted = step(engine_spec, started(), engines=engines())
    assert adopted.builder.status.submission == "uid-1-0"
    loading = step(engine_spec, started(submission="uid-1-0"), engines=engines())
    assert loading.actions == () and condition(loading, "ModelReady") == ("False", "EnginesStarting")
    serving = step(engine_spec, started(submission="uid-1-0"), engines=engines(serving=1))
    assert EvalAction.CREATE_SHARDS in serving.actions and condition(serving, "ModelReady")[0] == "True"


def test_shards_run_on_while_an_engine_is_replaced(engine_spec: Spec) -> None:
    decision = step(engine_spec, started(submission="s"), engines=engines(), shards=job("nightly-shards"))
    assert decision.actions == () and decision.builder.status.phase == "Running"


@pytest.mark.parametrize(
    "observed",
    [
        {"driver": DriverState("failed", "out of memory")},
        {"driver": DriverState("absent")},
        {"driver": DriverState("unreachable"), "pods": []},
        {"driver": DriverState("unreachable", "no answer"), "unreachable_seconds": 121.0},
    ],
    ids=["failed", "never seen", "head gone", "deaf"],
)
def test_lost_engines_stop_the_shards_and_are_restarted(engine_spec: Spec, observed: dict[str, Any]) -> None:
    decision = step(engine_spec, started(submission="s"), engines=engines(**observed), shards=job("nightly-shards"))
    assert decision.actions == (EvalAction.DELETE_SHARDS, EvalAction.DELETE_ENGINES)
    assert (decision.builder.status.failures, decision.builder.status.submission) == (1, None)
    ending = step(engine_spec, decision.builder.status, engines=engines(cluster=None), preflight=PASSED)
    assert ending.actions == ()  # Pods of the old cluster are still there
    restarted = step(engine_spec, decision.builder.status, engines=engines(cluster=None, pods=[]), preflight=PASSED)
    assert EvalAction.CREATE_ENGINES in restarted.actions


def test_short_time_without_answer_is_tolerated(engine_spec: Spec) -> None:
    unreachable = engines(driver=DriverState("unreachable"), unreachable_seconds=30.0)
    decision = step(engine_spec, started(submission="s"), engines=unreachable, shards=job("nightly-shards"))
    assert decision.actions == () and decision.builder.status.failures is None


def test_engines_that_cannot_serve_fail_the_evaluation(engine_spec: Spec) -> None:
    final_failure = engines(driver=DriverState("failed", "no complete checkpoint", 78))
    assert condition(step(engine_spec, started(submission="s"), engines=final_failure), "Failed") == (
        "True",
        "EnginesLost",
    )
    last = step(
        engine_spec, started(submission="s", failures=3), engines=engines(driver=DriverState("failed", "again"))
    )
    assert condition(last, "Failed")[0] == "True" and "spec.retries is 3" in message(last, "Failed")


def test_engines_are_deleted_when_the_shards_are_done(engine_spec: Spec) -> None:
    complete = ended("nightly-shards", "Complete")
    decision = step(engine_spec, started(submission="s"), engines=engines(serving=1), shards=complete)
    assert decision.actions == (EvalAction.CREATE_MERGE, EvalAction.DELETE_ENGINES)


def test_deleted_job_blocks_the_evaluation(engine_spec: Spec) -> None:
    problems = [Problem("JobMissing", "SweRLJob 'demo' does not exist")]
    decision = step(
        engine_spec,
        started(),
        engines=engines(cluster=None),
        shards=job("nightly-shards"),
        prerequisite_problems=problems,
    )
    assert decision.actions == () and condition(decision, "Validated") == ("False", "JobMissing")


def test_suspend_deletes_everything_and_resume_continues(spec: Spec) -> None:
    running = started(progress="3/4", done=3, total=4)
    suspended = step(spec | {"suspend": True}, running, leftovers=3)
    assert suspended.actions == (EvalAction.DELETE_EVERYTHING,) and suspended.builder.status.phase == "Suspended"
    assert suspended.builder.status.progress == "3/4"
    suspended_again = step(spec | {"suspend": True}, suspended.builder.status)
    assert suspended_again.actions == () and suspended_again.requeue_after is None
    resumed = step(spec, suspended.builder.status, preflight=PASSED)
    assert EvalAction.CREATE_SHARDS in resumed.actions and condition(resumed, "Suspended") == ("False", "Resumed")


def test_deadline_fails_the_evaluation_and_cleans_up(spec: Spec) -> None:
    over = step(spec | {"activeDeadlineSeconds": 60}, started(), shards=job("nightly-shards"))
    assert condition(over, "Failed") == ("True", "DeadlineExceeded")
    assert step(spec, over.builder.status, leftovers=2).actions == (EvalAction.DELETE_EVERYTHING,)
    before_deadline = step(spec | {"activeDeadlineSeconds": 62}, started(), shards=job("nightly-shards"))
    assert before_deadline.requeue_after == 2


def test_finished_evaluation_is_deleted_after_its_time_to_live(spec: Spec) -> None:
    merged_progress = EvalProgress(total=1, done=1, resolved=1, errors=0, rate=1.0)
    done = step(
        spec, started(), merge=ended("nightly-merge", "Complete"), merged_progress=merged_progress
    ).builder.status
    assert step(spec, done).requeue_after is None and step(spec, done).builder.patch() is None
    with_ttl = spec | {"ttlSecondsAfterFinished": 60}
    assert step(with_ttl, done).requeue_after == 60
    expired = decide(SweEvalSpec.model_validate(with_ttl), done, 1, EvalObservation(NOW + timedelta(seconds=61)))
    assert expired.actions == (EvalAction.DELETE_EVALUATION,)


def test_same_observation_writes_the_status_once(spec: Spec) -> None:
    observed: dict[str, Any] = {
        "shards": job("nightly-shards"),
        "shard_progress": [EvalProgress(total=4, done=1, resolved=0)],
    }
    first = step(spec, started(), **observed)
    assert first.builder.patch() is not None
    assert step(spec, first.builder.status, **observed).builder.patch() is None
