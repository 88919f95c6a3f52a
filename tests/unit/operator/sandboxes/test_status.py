"""The status has all that matters in few writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from swerl_operator.sandboxes.decide import decide
from swerl_operator.sandboxes.events import conditions_for_events
from swerl_operator.sandboxes.group_state import StatusWrites
from swerl_operator.sandboxes.parsed import ParsedPod, PodStage, StartTimes
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.status import desired_status, write_time
from swerl_operator.sandboxes.store import GroupRecord

Records = Callable[..., GroupRecord]
Due = Callable[..., float | None]
StatusBody = dict[str, Any]
Pods = Callable[..., ParsedPod]
SETTINGS = SandboxSettings()
NOW = 1_000_000.0


def status_of(record: GroupRecord, now: float = NOW) -> dict[str, Any]:
    return desired_status(record, decide(record, now, SETTINGS), now)


@pytest.fixture
def due(record: Records) -> Due:
    """When the status `desired` is written over `written`."""

    def time_of(
        writes: StatusWrites, written: StatusBody, desired: StatusBody, replicas: int, now: float
    ) -> float | None:
        built = record(spec={"replicas": replicas}, status=written, writes=writes)
        return write_time(built, desired, now, SETTINGS)

    return time_of


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_phases_follow_the_groups_life(record: Records, pod: Pods) -> None:
    pending = status_of(record(admitted=False))
    assert pending["phase"] == "Pending"
    assert conditions(pending)["Admitted"] == ("False", "WaitingForCapacity")
    starting = status_of(record(*[pod(i, PodStage.STARTING) for i in range(4)]))
    assert (starting["phase"], starting["replicas"], starting["ready"]) == ("Admitted", 4, 0)
    ready = status_of(record(*[pod(i) for i in range(4)]))
    assert ready["phase"] == "Ready"
    assert conditions(ready) == {"Admitted": ("True", "Admitted"), "Ready": ("True", "AllReady")}
    over = status_of(record(created=4, status=ready))
    assert (over["phase"], over["finished"]) == ("Finished", 4)
    assert conditions(over)["Finished"] == ("True", "Completed")
    lost = status_of(record(*[pod(i, PodStage.TERMINATED, reason="OOMKilled") for i in range(4)]))
    assert lost["phase"] == "Failed"


def test_waits_are_written_when_ready(record: Records, pod: Pods) -> None:
    def at(*times: float) -> StartTimes:
        return StartTimes(*(NOW + time for time in times))

    started = {0: at(2, 3, 5, 9), 1: at(4, 5, 6, 8)}
    assert "waits" not in status_of(record(pod(0, start_times=started[0]), spec={"replicas": 2}))
    ready = status_of(record(*[pod(i, start_times=m) for i, m in started.items()], spec={"replicas": 2}))
    waits_without_pull = {"queueSeconds": 3.0, "scheduleSeconds": 1.0, "prepareSeconds": 1.5, "startSeconds": 3.0}
    assert ready["waits"] == waits_without_pull
    pulls = {"pod-g-0": 3.2, "pod-g-7": 99.0}  # of two Pods; the second Event is not there
    pods = [pod(i, start_times=m) for i, m in started.items()]
    split = status_of(record(*pods, spec={"replicas": 2}, pulls=pulls))
    assert split["waits"] == waits_without_pull | {"pullSeconds": 3.2, "startSeconds": 0.8}
    later = status_of(record(pod(1), created=2, status=ready, spec={"replicas": 2}))
    assert later["waits"] == ready["waits"]


def test_ready_false_has_the_reason(record: Records, pod: Pods) -> None:
    def ready_reason(group: GroupRecord) -> str:
        return conditions(status_of(group))["Ready"][1]

    assert ready_reason(record()) == "Creating"
    assert ready_reason(record(pod(0, PodStage.WAITING, reason="Unschedulable"))) == "Unschedulable"
    assert ready_reason(record(pod(0, PodStage.STARTING, reason="ErrImagePull"))) == "PullingImage"
    assert ready_reason(record(refusal=("PodRejected", "no"))) == "PodRejected"
    assert conditions(status_of(record(policy_in_place=False)))["Admitted"] == ("False", "WaitingForIsolation")


def test_sidecar_that_is_not_ready_is_named_with_its_pod(record: Records, pod: Pods) -> None:
    text = "container istio-proxy, which is not ours, is not ready: its readiness probe does not pass"
    observed = status_of(record(pod(0), pod(1, PodStage.STARTING, reason="SidecarNotReady", message=text)))
    ready = next(c for c in observed["conditions"] if c["type"] == "Ready")
    assert (ready["reason"], ready["message"]) == ("SidecarNotReady", f"swesb-g-1: {text}")
    assert [c.reason for c in conditions_for_events({}, observed)] == ["SidecarNotReady"]


def test_unschedulable_pods_are_counted_and_the_first_is_reported_with_its_time(record: Records, pod: Pods) -> None:
    def waits(ordinal: int, since: float, message: str) -> ParsedPod:
        pod_fields: dict[str, Any] = {"reason": "Unschedulable", "message": message, "waiting_since": since}
        return pod(ordinal, PodStage.WAITING, **pod_fields)

    observed = record(pod(0), waits(1, NOW + 9, "no room"), waits(2, NOW + 3, "0/1 nodes are available"), created=3)
    ready = next(c for c in status_of(observed)["conditions"] if c["type"] == "Ready")
    assert ready["message"] == (
        "2 of 4 Pods without a node, swesb-g-2 since 1970-01-12T13:46:43Z: 0/1 nodes are available"
    )


def test_full_quota_is_reported_and_admits_no_group(record: Records, pod: Pods) -> None:
    refusal = ("WaitingForCapacity", "waiting for quota: exceeded quota: small")
    none = status_of(record(refusal=refusal))
    assert none["phase"] == "Pending"
    assert {(c["type"], c["status"], c["reason"], c["message"]) for c in none["conditions"]} == {
        ("Admitted", "False", *refusal),
        ("Ready", "False", *refusal),
    }
    partial = status_of(record(pod(0), refusal=refusal, status=none))
    assert (partial["phase"], conditions(partial)["Ready"]) == ("Admitted", ("False", "WaitingForCapacity"))


def test_gated_group_reports_its_gates_and_is_admitted_without_them(record: Records, pod: Pods) -> None:
    gated = pod(0, PodStage.WAITING, reason="SchedulingGated", message="kueue.x-k8s.io/admission")
    waiting = status_of(record(gated, pod(1, PodStage.STARTING)))
    assert waiting["phase"] == "Pending"
    assert conditions(waiting) == {
        "Admitted": ("False", "SchedulingGated"),
        "Ready": ("False", "SchedulingGated"),
    }
    message = waiting["conditions"][0]["message"]
    assert "kueue.x-k8s.io/admission" in message and "LocalQueue q" in message
    free = status_of(record(pod(0, PodStage.STARTING), pod(1, PodStage.STARTING), status=waiting))
    assert conditions(free)["Admitted"] == ("True", "Admitted")


def test_lost_pod_is_reported_while_the_others_run(record: Records, pod: Pods, due: Due) -> None:
    ready = status_of(record(*[pod(i) for i in range(4)]))
    lost = {"lost": Counter({"Preempted": 1}), "loss_messages": {"Preempted": "swesb-g-3: sorry"}}
    observed = record(pod(0), pod(1), pod(2), created=4, status=ready, **lost)
    degraded = status_of(observed)
    assert degraded["phase"] == "Ready"
    found = next(c for c in degraded["conditions"] if c["type"] == "Degraded")
    assert (found["status"], found["reason"]) == ("True", "Preempted")
    assert found["message"] == "1 of 4 Pods were lost: 1 Preempted; swesb-g-3: sorry"
    assert due(StatusWrites(count=1), ready, degraded, 4, NOW) == NOW + SETTINGS.lost_delay
    successor = status_of(record(pod(0), pod(1), pod(2), created=4, lost=Counter({"PodLost": 1}), status=degraded))
    assert conditions(successor)["Degraded"] == ("True", "Preempted"), "an operator that came later knows no better"


def test_each_reason_has_one_event_and_the_end_only_one(record: Records, pod: Pods) -> None:
    ready = status_of(record(*[pod(i) for i in range(4)]))
    assert not conditions_for_events({}, ready)
    killed = pod(0, PodStage.TERMINATED, reason="OOMKilled", message="memory")
    one_lost = status_of(record(killed, *[pod(i) for i in (1, 2, 3)], status=ready))
    assert [(c.type, c.reason) for c in conditions_for_events(ready, one_lost)] == [("Degraded", "OOMKilled")]
    assert not conditions_for_events(one_lost, one_lost)
    over = status_of(record(*[pod(i, PodStage.TERMINATED, reason="OOMKilled") for i in range(4)], status=one_lost))
    assert [(c.type, c.reason) for c in conditions_for_events(one_lost, over)] == [("Finished", "OOMKilled")]
    unschedulable = status_of(record(pod(0, PodStage.WAITING, reason="Unschedulable", message="no node")))
    assert [(c.type, c.reason) for c in conditions_for_events({}, unschedulable)] == [("Ready", "Unschedulable")]
    done = status_of(record(created=4, status=ready))
    assert not conditions_for_events(ready, done)


def test_cpu_seconds_are_written_once_ready_and_never_shrink(record: Records, pod: Pods) -> None:
    ready = status_of(record(*[pod(i) for i in range(4)], cpu_seconds=0.3))
    assert "cpuSeconds" not in ready, "it would count as written"
    later = status_of(record(*[pod(i) for i in range(4)], status=ready, cpu_seconds=12.34))
    assert later["cpuSeconds"] == 12.3
    after_a_restart = status_of(record(*[pod(i) for i in range(4)], status=later))
    assert after_a_restart["cpuSeconds"] == 12.3
    failed = status_of(record(*[pod(i, PodStage.TERMINATED, reason="NodeLost") for i in range(4)], cpu_seconds=3.0))
    assert failed["cpuSeconds"] == 3.0


@pytest.mark.parametrize("replicas", [1, 4])
def test_cpu_seconds_on_their_own_cost_one_write(replicas: int, record: Records, pod: Pods, due: Due) -> None:
    def status_with_cpu(status: dict[str, Any], cpu: float) -> dict[str, Any]:
        pods = [pod(i) for i in range(replicas)]
        return status_of(record(*pods, status=status, cpu_seconds=cpu, spec={"replicas": replicas}))

    ready = status_with_cpu({}, 0.0)
    one_write, two_writes = StatusWrites(count=1), StatusWrites(count=2)
    for later in (0, 60):
        later_status = status_with_cpu(ready, 5.0 + later)
        assert due(one_write, ready, later_status, replicas, NOW + later) == NOW + SETTINGS.usage_delay
        assert due(two_writes, ready, later_status, replicas, NOW + later) is None, "it has had its share of writes"
    written = status_with_cpu(ready, 65.0)
    assert due(one_write, written, status_with_cpu(written, 500.0), replicas, NOW) is None


def test_group_stays_ready_while_its_pods_end(record: Records, pod: Pods) -> None:
    ready = status_of(record(*[pod(i) for i in range(4)]))
    fewer = status_of(record(pod(3), created=4, status=ready))
    assert (fewer["phase"], fewer["ready"], fewer["finished"]) == ("Ready", 1, 3)


def test_fast_start_costs_one_write(record: Records, pod: Pods, due: Due) -> None:
    writes = StatusWrites()
    admitted = status_of(record(pod(0, PodStage.STARTING)))
    assert due(writes, {}, admitted, 4, NOW) == NOW + SETTINGS.admitted_delay
    ready = status_of(record(*[pod(i) for i in range(4)]))
    assert due(writes, {}, ready, 4, NOW + 1) == NOW + 1
    assert due(writes, ready, ready, 4, NOW + 2) is None


def test_long_wait_is_written_to_the_status(record: Records, due: Due) -> None:
    writes, waiting = StatusWrites(), status_of(record(admitted=False))
    first = due(writes, {}, waiting, 4, NOW)
    assert first == NOW + SETTINGS.waiting_delay
    assert due(writes, {}, waiting, 4, NOW + 3) == first


def test_refused_pod_is_written_to_the_status(record: Records, due: Due) -> None:
    refused = status_of(record(refusal=("PodRejected", "failed calling webhook")))
    assert conditions(refused)["Admitted"] == ("True", "Admitted")
    assert due(StatusWrites(), {}, refused, 4, NOW) == NOW + SETTINGS.waiting_delay


def test_counts_on_their_own_are_written_seldom_and_not_for_ever(record: Records, pod: Pods, due: Due) -> None:
    before = status_of(record(*[pod(i) for i in range(4)]))
    after = status_of(record(*[pod(i) for i in range(3)], created=4, status=before))
    assert due(StatusWrites(count=1), before, after, 4, NOW) == NOW + SETTINGS.counts_delay
    assert due(StatusWrites(count=3), before, after, 4, NOW) is None


def test_end_of_a_completed_group_is_written_after_a_delay(record: Records, pod: Pods, due: Due) -> None:
    before = status_of(record(*[pod(i) for i in range(4)]))
    done = status_of(record(created=4, status=before))
    assert due(StatusWrites(count=1), before, done, 4, NOW) == NOW + SETTINGS.completed_delay
    failed = status_of(record(*[pod(i, PodStage.TERMINATED, reason="NodeLost") for i in range(4)], status=before))
    assert due(StatusWrites(count=1, last=NOW - 0.1), before, failed, 4, NOW) == NOW + 0.4


def test_transition_times_change_only_with_their_condition(record: Records, pod: Pods) -> None:
    before = status_of(record(*[pod(i) for i in range(4)]))
    later = status_of(record(*[pod(i) for i in range(4)], status=before), NOW + 60)
    assert later == before


def test_queueing_for_slots_is_written_late(record: Records, pod: Pods, due: Due) -> None:
    queued = status_of(record(slots=0))
    assert conditions(queued)["Admitted"] == ("True", "Admitted")
    writes = StatusWrites()
    assert due(writes, {}, queued, 4, NOW) == NOW + SETTINGS.queued_delay
    started = status_of(record(pod(0, PodStage.STARTING)))
    assert due(writes, {}, started, 4, NOW + 5) == NOW + 5 + SETTINGS.admitted_delay
