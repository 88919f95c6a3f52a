"""The decision, state by state: the test holds the clock, the cluster and Ray."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from swerl_api import SweRLJobSpec, SweRLJobStatus, find_condition
from swerl_operator.jobs.decide import JobAction, JobDecision, decide
from swerl_operator.jobs.events import event_type
from swerl_operator.jobs.observe import JobObservation
from swerl_operator.problem import Problem
from swerl_operator.ray.jobs import EXIT_NO_RETRY, DriverState

from tests.unit.operator.conftest import Spec

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EARLIER = "2029-12-31T23:59:00Z"  # one minute before NOW
TRAIN = {"groupName": "train", "replicas": 1}
CLUSTER: dict[str, Any] = {"metadata": {"name": "demo-1"}, "spec": {"workerGroupSpecs": [TRAIN]}}


def head(**status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True"}]
    labels = {"ray.io/node-type": "head", "ray.io/group": "headgroup"}
    metadata = {"name": "demo-1-head", "labels": labels}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": conditions} | status}


def status(**fields: Any) -> SweRLJobStatus:
    return SweRLJobStatus.model_validate({"attempt": 1, "startTime": EARLIER, "attemptTime": EARLIER} | fields)


def running_status(**fields: Any) -> SweRLJobStatus:
    return status(**({"submission": "uid-1-1", "rayCluster": "demo-1"} | fields))


def step(spec: Spec, previous: SweRLJobStatus, **observed_fields: Any) -> JobDecision:
    observed = JobObservation(NOW, **({"submission": "uid-1-1"} | observed_fields))
    return decide(SweRLJobSpec.model_validate(spec), previous, 1, observed)


def condition(decision: JobDecision, type: str) -> tuple[str, str]:
    found = find_condition(decision.builder.status.conditions, type)
    assert found is not None, type
    return found.status, found.reason


def test_new_job_starts_attempt_one(spec: Spec) -> None:
    decision = step(spec, SweRLJobStatus())
    assert (decision.builder.status.attempt, decision.builder.status.phase, decision.requeue_after) == (
        1,
        "Starting",
        0,
    )


def test_missing_prerequisite_blocks_the_job(spec: Spec) -> None:
    decision = step(spec, status(), prerequisite_problems=[Problem("KubeRayMissing", "install it")])
    assert decision.builder.status.phase == "Blocked"
    assert condition(decision, "Validated") == ("False", "KubeRayMissing")
    assert decision.actions == (JobAction.DELETE_PREFLIGHT,)


def test_all_problems_are_reported_together(spec: Spec) -> None:
    decision = step(
        spec,
        status(),
        prerequisite_problems=[Problem("A", "one"), Problem("B", "two")],
        capacity_problem=Problem("C", "3"),
    )
    found = find_condition(decision.builder.status.conditions, "Validated")
    assert found is not None and (found.reason, found.message) == ("A", "one; two; 3")


def test_valid_job_whose_sandboxes_reach_the_network_is_warned(spec: Spec) -> None:
    closed = step(spec, status(), prerequisite_problems=[])
    opened = step(spec | {"sandbox": {"egress": "allow"}}, status(), prerequisite_problems=[])
    for decision, words in ((closed, ""), (opened, "sandbox.egress is allow: commands of the model reach the cluster")):
        found = find_condition(decision.builder.status.conditions, "Validated")
        assert found is not None and (found.status, found.reason) == ("True", "Valid")
        assert found.message.startswith(words) and bool(found.message) == bool(words)


def test_batch_beyond_the_limit_is_a_warning_only(spec: Spec) -> None:
    wide = spec | {"algorithm": {"promptsPerStep": 64}}
    decision = step(wide, status(), prerequisite_problems=[])
    assert condition(decision, "CapacityMatched") == ("False", "SandboxesLimited")
    assert JobAction.CREATE_PREFLIGHT in decision.actions


def test_leftovers_of_earlier_attempts_delay_the_next_only_until_a_timeout(spec: Spec) -> None:
    decision = step(spec, status(attempt=2), leftovers=3, prerequisite_problems=[])
    assert decision.actions == (JobAction.DELETE_OTHERS,)
    timed_out = status(attempt=2, attemptTime="2029-12-31T23:00:00Z")
    assert JobAction.CREATE_PREFLIGHT in step(spec, timed_out, leftovers=3, prerequisite_problems=[]).actions


def test_driver_is_submitted_once_ray_answers(spec: Spec) -> None:
    unreachable = step(spec, status(), cluster=CLUSTER, pods=[head()], driver=DriverState("unreachable"))
    assert unreachable.actions == () and unreachable.builder.status.phase == "Starting"
    reachable = step(spec, status(), cluster=CLUSTER, pods=[head()], driver=DriverState("absent"))
    assert reachable.actions == (JobAction.SUBMIT,) and reachable.builder.status.submission is None


def test_submission_of_unknown_origin_is_adopted(spec: Spec) -> None:
    decision = step(spec, status(), cluster=CLUSTER, pods=[head()], driver=DriverState("running"))
    assert decision.builder.status.submission == "uid-1-1" and decision.actions == ()
    assert decision.builder.status.phase == "Training"


def test_steps_that_change_no_weight_are_a_condition(spec: Spec) -> None:
    def step_after(**fields: Any) -> JobDecision:
        before = running_status(**fields)
        return step(spec, before, cluster=CLUSTER, pods=[head()], driver=DriverState("running"))

    assert find_condition(step_after().builder.status.conditions, "Learning") is None
    assert condition(step_after(stepsWithoutSignal=0), "Learning") == ("True", "WeightsChanged")
    without = step_after(stepsWithoutSignal=3)
    assert condition(without, "Learning") == ("False", "NoSignal")
    found = find_condition(without.builder.status.conditions, "Learning")
    assert found is not None and "the last 3 steps changed no weight" in found.message


def test_failed_driver_starts_the_next_attempt(spec: Spec) -> None:
    driver = DriverState("failed", "killed by signal 9")
    decision = step(spec, running_status(), cluster=CLUSTER, pods=[head()], driver=driver)
    retried = decision.builder.status
    assert (retried.attempt, retried.failures, retried.phase, retried.submission) == (2, 1, "Retrying", None)
    found = find_condition(retried.conditions, "Training")
    assert found is not None and "attempt 1: killed by signal 9" in found.message


def test_failed_attempt_names_the_pods_that_were_missing(spec: Spec) -> None:
    driver = DriverState("failed", "PodsMissing: 1 of 1 trainer Pods have not joined Ray in 1800 s")
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes have GPUs"}
    metadata = {"name": "demo-1-train-x", "labels": {"ray.io/group": "train"}}
    train = {"metadata": metadata, "status": {"phase": "Pending", "conditions": [waiting]}}
    decision = step(spec, running_status(), cluster=CLUSTER, pods=[head(), train], driver=driver)
    found = find_condition(decision.builder.status.conditions, "Training")
    assert found is not None and "1 of 1 trainer Pods" in found.message
    assert "train 0 of 1 (Pod demo-1-train-x is Pending)" in found.message and "0/3 nodes have GPUs" in found.message


def test_last_attempt_fails_the_job_with_the_drivers_message(spec: Spec) -> None:
    driver = DriverState("failed", "out of memory")
    decision = step(
        spec | {"retries": 1}, running_status(attempt=2, failures=1), cluster=CLUSTER, pods=[head()], driver=driver
    )
    assert condition(decision, "Failed") == ("True", "RetriesExhausted")
    found = find_condition(decision.builder.status.conditions, "Failed")
    assert found is not None and "out of memory" in found.message
    assert decision.builder.status.phase == "Failed" and decision.builder.status.completion_time


def test_exit_code_78_prevents_further_attempts(spec: Spec) -> None:
    driver = DriverState("failed", "no such task", EXIT_NO_RETRY)
    decision = step(spec, running_status(), cluster=CLUSTER, pods=[head()], driver=driver)
    assert condition(decision, "Failed") == ("True", "DriverFailed")


def test_exit_code_78_after_a_checkpoint_is_retried(spec: Spec) -> None:
    driver = DriverState("failed", "tasks.jsonl: cannot be read: Input/output error", EXIT_NO_RETRY)
    before = running_status(lastCheckpoint="/swerl/output/demo/checkpoints/step-0000004")
    retried = step(spec, before, cluster=CLUSTER, pods=[head()], driver=driver).builder.status
    assert (retried.attempt, retried.phase) == (2, "Retrying")


def test_lost_head_starts_the_next_attempt(spec: Spec) -> None:
    submission_missing = step(spec, running_status(), cluster=CLUSTER, pods=[head()], driver=DriverState("absent"))
    without_pods = step(spec, running_status(), cluster=CLUSTER, pods=[], driver=DriverState("unreachable"))
    unreachable = step(
        spec,
        running_status(),
        cluster=CLUSTER,
        pods=[head()],
        driver=DriverState("unreachable", "no answer"),
        unreachable_seconds=121.0,
    )
    deleted = step(spec, running_status(), prerequisite_problems=[])
    for decision in (submission_missing, without_pods, unreachable, deleted):
        assert decision.builder.status.attempt == 2
        assert condition(decision, "Training") == ("False", "HeadLost")


def test_disrupted_pods_are_named_with_the_clusters_words(spec: Spec) -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    taken = head(conditions=[target])
    taken["metadata"]["deletionTimestamp"] = EARLIER
    words = "Pod demo-1-head leaves its node: EvictionByEvictionAPI: evicting"
    starting = step(spec, status(), cluster=CLUSTER, pods=[taken], driver=DriverState("unreachable"))
    (ready,) = [each for each in starting.builder.changed_conditions() if each.type == "ClusterReady"]
    assert (ready.status, ready.reason, event_type(ready)) == ("False", "PodDisrupted", "Warning")
    assert words in ready.message and starting.builder.status.failures is None
    lost = step(spec, running_status(), cluster=CLUSTER, pods=[taken], driver=DriverState("unreachable"))
    found = find_condition(lost.builder.status.conditions, "Training")
    assert found is not None and found.reason == "HeadLost" and words in found.message


def test_short_time_without_answer_is_tolerated(spec: Spec) -> None:
    decision = step(
        spec,
        running_status(),
        cluster=CLUSTER,
        pods=[head()],
        driver=DriverState("unreachable"),
        unreachable_seconds=30.0,
    )
    assert decision.builder.status.attempt == 1


def test_success_completes_the_job_and_then_cleans_up(spec: Spec) -> None:
    decision = step(spec, running_status(), cluster=CLUSTER, pods=[head()], driver=DriverState("succeeded"))
    assert condition(decision, "Complete")[0] == "True" and decision.requeue_after == 0
    done = decision.builder.status
    cleaning = step(spec, done, leftovers=4)
    assert cleaning.actions == (JobAction.DELETE_EVERYTHING,) and cleaning.requeue_after
    clean = step(spec, done)
    assert clean.actions == () and clean.requeue_after is None and clean.builder.patch() is None


def test_finished_job_is_deleted_after_its_time_to_live(spec: Spec) -> None:
    done = step(spec, running_status(), cluster=CLUSTER, pods=[head()], driver=DriverState("succeeded")).builder.status
    with_ttl = spec | {"ttlSecondsAfterFinished": 60}
    assert step(with_ttl, done).requeue_after == 60
    expired = decide(SweRLJobSpec.model_validate(with_ttl), done, 1, JobObservation(NOW + timedelta(seconds=61)))
    assert expired.actions == (JobAction.DELETE_JOB,)


def test_suspend_deletes_and_resume_counts_no_failure(spec: Spec) -> None:
    suspended = step(spec | {"suspend": True}, running_status(), leftovers=2)
    assert suspended.actions == (JobAction.DELETE_EVERYTHING,) and suspended.builder.status.phase == "Suspended"
    resumed = step(spec, suspended.builder.status)
    resumed_status = resumed.builder.status
    assert (resumed_status.attempt, resumed_status.failures, resumed_status.phase) == (2, None, "Starting")
    assert condition(resumed, "Suspended") == ("False", "Resumed")


def test_deadline_fails_the_job_and_bounds_the_wait(spec: Spec) -> None:
    past_deadline = step(
        spec | {"activeDeadlineSeconds": 60}, running_status(), cluster=CLUSTER, driver=DriverState("running")
    )
    assert condition(past_deadline, "Failed") == ("True", "DeadlineExceeded")
    before_deadline = step(
        spec | {"activeDeadlineSeconds": 62}, running_status(), cluster=CLUSTER, driver=DriverState("running")
    )
    assert before_deadline.requeue_after == 2


def test_suspended_cluster_waits_for_its_queue(spec: Spec) -> None:
    queued_cluster = {"metadata": {"name": "demo-1"}, "spec": {"suspend": True}}
    decision = step(spec, status(), cluster=queued_cluster, driver=DriverState("unreachable"))
    assert condition(decision, "ClusterReady") == ("False", "WaitingForQueue")


def test_patch_keeps_the_drivers_fields(spec: Spec) -> None:
    before = running_status(step=3, rewardMean=0.5, sandboxes={"pending": 1, "ready": 2})
    same = step(spec, before, cluster=CLUSTER, pods=[head()], driver=DriverState("running")).builder.patch()
    assert same is not None and not {"step", "rewardMean", "sandboxes"} & same["status"].keys()
    failed = step(spec, before, cluster=CLUSTER, pods=[head()], driver=DriverState("failed")).builder.patch()
    assert failed is not None and failed["status"]["sandboxes"] is None and "step" not in failed["status"]


def failed_status(**fields: Any) -> SweRLJobStatus:
    failed = {"type": "Failed", "status": "True", "reason": "RetriesExhausted", "lastTransitionTime": EARLIER}
    return status(**({"failures": 4, "completionTime": EARLIER, "phase": "Failed", "conditions": [failed]} | fields))


def test_failed_job_starts_its_next_attempt_on_request(spec: Spec) -> None:
    decision = step(spec, failed_status(), retry_requested=True)
    found = decision.builder.status
    assert (found.attempt, found.failures, found.completion_time, found.phase) == (2, 0, None, "Starting")
    assert condition(decision, "Failed") == ("False", "RetryRequested")
    patch = decision.builder.patch()
    assert patch is not None and patch["status"]["completionTime"] is None and decision.actions == ()


def test_requested_attempt_has_the_whole_deadline_again(spec: Spec) -> None:
    limited = spec | {"activeDeadlineSeconds": 60}
    over = step(limited, status(startTime=EARLIER))
    assert condition(over, "Failed") == ("True", "DeadlineExceeded")
    retried = step(limited, over.builder.status, retry_requested=True)
    assert retried.builder.status.start_time != EARLIER
    assert condition(step(limited, retried.builder.status), "Failed") == ("False", "RetryRequested")


def test_complete_job_is_not_retried(spec: Spec) -> None:
    complete = {"type": "Complete", "status": "True", "reason": "DriverSucceeded", "lastTransitionTime": EARLIER}
    decision = step(spec, failed_status(phase="Complete", conditions=[complete]), retry_requested=True)
    assert decision.builder.status.attempt == 1
