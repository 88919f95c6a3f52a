"""The decision, state by state: the test holds the clock, the cluster and Ray."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from swerl_api import EvalProgress, SweEvalSpec, SweEvalStatus, find_condition
from swerl_operator.evals.decision import decide
from swerl_operator.evals.state import Action, Decision, Engines, Observed
from swerl_operator.jobs.preflight import Preflight
from swerl_operator.jobs.problem import Problem
from swerl_operator.jobs.ray_jobs import Driver

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


def engines(**seen: Any) -> Engines:
    return Engines("uid-1-0", **({"cluster": CLUSTER, "pods": [HEAD], "driver": Driver("running")} | seen))


def begun(**fields: Any) -> SweEvalStatus:
    return SweEvalStatus.model_validate({"startTime": EARLIER} | fields)


def step(spec: Spec, before: SweEvalStatus, **seen: Any) -> Decision:
    return decide(SweEvalSpec.model_validate(spec), before, 1, Observed(NOW, **seen))


def condition(decision: Decision, type: str) -> tuple[str, str]:
    found = find_condition(decision.draft.status.conditions, type)
    assert found is not None, type
    return found.status, found.reason


def message(decision: Decision, type: str) -> str:
    found = find_condition(decision.draft.status.conditions, type)
    assert found is not None, type
    return found.message


def test_a_missing_prerequisite_blocks_and_starts_nothing(spec: Spec) -> None:
    decision = step(spec, begun(), prerequisites=[Problem("A", "one"), Problem("B", "two")])
    assert decision.draft.status.phase == "Blocked"
    assert message(decision, "Validated") == "one; two"
    assert decision.actions == (Action.DELETE_PREFLIGHT,)


def test_an_earlier_evaluation_of_the_name_goes_first(spec: Spec) -> None:
    decision = step(spec, begun(), leftovers=2, preflight=PASSED)
    assert decision.actions == () and condition(decision, "Validated") == ("False", "NameInUse")


def test_preflight_comes_before_the_shards(spec: Spec) -> None:
    assert step(spec, begun()).actions == (Action.CREATE_PREFLIGHT,)
    waiting = step(spec, begun(), preflight=Preflight("waiting", Problem("ImagePullFailed", "x")))
    assert waiting.actions == () and condition(waiting, "ImagesReady") == ("False", "ImagePullFailed")
    assert step(spec, begun(), preflight=Preflight("outdated")).actions == (Action.DELETE_PREFLIGHT,)
    passed = step(spec, begun(), preflight=PASSED)
    assert passed.actions == (Action.ENSURE_ACCOUNT, Action.CREATE_SHARDS, Action.DELETE_PREFLIGHT)
    assert condition(passed, "ModelReady") == ("True", "EndpointGiven")


def test_images_of_a_set_are_waited_for(spec: Spec) -> None:
    decision = step(spec, begun(), images=Problem("WaitingForImages", "3 to go"), preflight=PASSED)
    assert decision.actions == () and condition(decision, "ImagesReady") == ("False", "WaitingForImages")


def test_progress_is_summed_over_the_shards(spec: Spec) -> None:
    parts = [EvalProgress(total=40, done=4, resolved=1, errors=2), EvalProgress(total=40, done=6, resolved=3, errors=0)]
    decision = step(spec, begun(), shards=job("nightly-shards", succeeded=1), parts=parts)
    status = decision.draft.status
    assert (status.progress, status.resolved, status.errors, status.rate) == ("10/40", 4, 2, 0.4)
    assert (status.phase, status.shards_done, decision.actions) == ("Running", 1, ())


def test_finished_shards_are_merged_and_the_summary_is_the_last_word(spec: Spec) -> None:
    complete = ended("nightly-shards", "Complete")
    merging = step(spec, begun(), shards=complete)
    assert merging.actions == (Action.CREATE_MERGE,) and merging.draft.status.phase == "Merging"
    whole = EvalProgress(total=40, done=39, resolved=20, errors=1, rate=0.51, pass_at_k={"1": 0.51, "4": 0.7})
    merged = ended("nightly-merge", "Complete")
    silent = step(spec, begun(), shards=complete, merge=merged)
    assert silent.draft.status.phase == "Merging"
    done = step(spec, begun(), shards=complete, merge=merged, whole=whole)
    assert condition(done, "Complete") == ("True", "AllResults")
    status = done.draft.status
    assert (status.rate, status.pass_at_k, status.progress) == (0.51, {"1": 0.51, "4": 0.7}, "39/40")


def test_a_failed_shard_tells_its_last_words(spec: Spec) -> None:
    words = {"terminated": {"exitCode": 2, "message": "swerl: no task left"}}
    failed = pod(phase="Failed", containerStatuses=[{"name": "shard", "image": "i", "state": words}])
    decision = step(spec, begun(), shards=ended("nightly-shards", "Failed", "policy"), pods=[failed])
    assert condition(decision, "Failed") == ("True", "ShardsFailed")
    assert "swerl: no task left" in message(decision, "Failed") and "policy" in message(decision, "Failed")


def test_shards_wait_until_those_before_have_ended(spec: Spec) -> None:
    decision = step(spec, begun(), preflight=PASSED, pods=[pod()])
    assert decision.actions == () and decision.again


def test_engines_come_before_shards(engine_spec: Spec) -> None:
    none = engines(cluster=None, pods=[])
    created = step(engine_spec, begun(), preflight=PASSED, engines=none, checkpoint="/swerl/output/c")
    assert created.actions == (Action.ENSURE_ACCOUNT, Action.CREATE_ENGINES)
    assert created.draft.status.checkpoint == "/swerl/output/c"
    starting = step(engine_spec, begun(), engines=engines(driver=Driver("unreachable")))
    assert starting.actions == ()
    answering = step(engine_spec, begun(), engines=engines(driver=Driver("absent")))
    assert answering.actions == (Action.SUBMIT,)
    adopted = step(engine_spec, begun(), engines=engines())
    assert adopted.draft.status.submission == "uid-1-0"
    loading = step(engine_spec, begun(submission="uid-1-0"), engines=engines())
    assert loading.actions == () and condition(loading, "ModelReady") == ("False", "EnginesStarting")
    serving = step(engine_spec, begun(submission="uid-1-0"), engines=engines(serving=1))
    assert Action.CREATE_SHARDS in serving.actions and condition(serving, "ModelReady")[0] == "True"


def test_shards_go_on_while_an_engine_is_replaced(engine_spec: Spec) -> None:
    decision = step(engine_spec, begun(submission="s"), engines=engines(), shards=job("nightly-shards"))
    assert decision.actions == () and decision.draft.status.phase == "Running"


@pytest.mark.parametrize(
    "seen",
    [
        {"driver": Driver("failed", "out of memory")},
        {"driver": Driver("absent")},
        {"driver": Driver("unreachable"), "pods": []},
        {"driver": Driver("unreachable", "no answer"), "silence": 121.0},
    ],
    ids=["failed", "forgotten", "head gone", "deaf"],
)
def test_lost_engines_stop_the_shards_and_start_anew(engine_spec: Spec, seen: dict[str, Any]) -> None:
    decision = step(engine_spec, begun(submission="s"), engines=engines(**seen), shards=job("nightly-shards"))
    assert decision.actions == (Action.DELETE_SHARDS, Action.DELETE_ENGINES)
    assert (decision.draft.status.failures, decision.draft.status.submission) == (1, None)
    ending = step(engine_spec, decision.draft.status, engines=engines(cluster=None), preflight=PASSED)
    assert ending.actions == ()  # Pods of the old cluster are still there
    again = step(engine_spec, decision.draft.status, engines=engines(cluster=None, pods=[]), preflight=PASSED)
    assert Action.CREATE_ENGINES in again.actions


def test_a_short_silence_is_waited_out(engine_spec: Spec) -> None:
    quiet = engines(driver=Driver("unreachable"), silence=30.0)
    decision = step(engine_spec, begun(submission="s"), engines=quiet, shards=job("nightly-shards"))
    assert decision.actions == () and decision.draft.status.failures is None


def test_engines_that_cannot_serve_fail_the_evaluation(engine_spec: Spec) -> None:
    hopeless = engines(driver=Driver("failed", "no complete checkpoint", 78))
    assert condition(step(engine_spec, begun(submission="s"), engines=hopeless), "Failed") == ("True", "EnginesLost")
    last = step(engine_spec, begun(submission="s", failures=3), engines=engines(driver=Driver("failed", "again")))
    assert condition(last, "Failed")[0] == "True" and "spec.retries is 3" in message(last, "Failed")


def test_engines_go_as_soon_as_the_shards_are_done(engine_spec: Spec) -> None:
    complete = ended("nightly-shards", "Complete")
    decision = step(engine_spec, begun(submission="s"), engines=engines(serving=1), shards=complete)
    assert decision.actions == (Action.CREATE_MERGE, Action.DELETE_ENGINES)


def test_a_deleted_job_does_not_end_in_a_crash(engine_spec: Spec) -> None:
    gone = [Problem("JobMissing", "SweRLJob 'demo' does not exist")]
    decision = step(
        engine_spec, begun(), engines=engines(cluster=None), shards=job("nightly-shards"), prerequisites=gone
    )
    assert decision.actions == () and condition(decision, "Validated") == ("False", "JobMissing")


def test_suspend_stops_everything_and_resume_goes_on(spec: Spec) -> None:
    before = begun(progress="3/4", done=3, total=4)
    suspended = step(spec | {"suspend": True}, before, leftovers=3)
    assert suspended.actions == (Action.DELETE_EVERYTHING,) and suspended.draft.status.phase == "Suspended"
    assert suspended.draft.status.progress == "3/4"
    resting = step(spec | {"suspend": True}, suspended.draft.status)
    assert resting.actions == () and resting.again is None
    resumed = step(spec, suspended.draft.status, preflight=PASSED)
    assert Action.CREATE_SHARDS in resumed.actions and condition(resumed, "Suspended") == ("False", "Resumed")


def test_the_deadline_fails_it_and_what_runs_is_removed(spec: Spec) -> None:
    over = step(spec | {"activeDeadlineSeconds": 60}, begun(), shards=job("nightly-shards"))
    assert condition(over, "Failed") == ("True", "DeadlineExceeded")
    assert step(spec, over.draft.status, leftovers=2).actions == (Action.DELETE_EVERYTHING,)
    near = step(spec | {"activeDeadlineSeconds": 62}, begun(), shards=job("nightly-shards"))
    assert near.again == 2


def test_a_finished_evaluation_goes_after_its_time_to_live(spec: Spec) -> None:
    whole = EvalProgress(total=1, done=1, resolved=1, errors=0, rate=1.0)
    done = step(spec, begun(), merge=ended("nightly-merge", "Complete"), whole=whole).draft.status
    assert step(spec, done).again is None and step(spec, done).draft.patch() is None
    mortal = spec | {"ttlSecondsAfterFinished": 60}
    assert step(mortal, done).again == 60
    late = decide(SweEvalSpec.model_validate(mortal), done, 1, Observed(NOW + timedelta(seconds=61)))
    assert late.actions == (Action.DELETE_EVALUATION,)


def test_the_same_observation_writes_nothing_twice(spec: Spec) -> None:
    seen: dict[str, Any] = {"shards": job("nightly-shards"), "parts": [EvalProgress(total=4, done=1, resolved=0)]}
    first = step(spec, begun(), **seen)
    assert first.draft.patch() is not None
    assert step(spec, first.draft.status, **seen).draft.patch() is None
