"""Each decision follows from the record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from swerl_operator.sandboxes.decide import count_pods, decide
from swerl_operator.sandboxes.parsed import ParsedPod, PodStage
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import GroupRecord

Records = Callable[..., GroupRecord]
Pods = Callable[..., ParsedPod]
SETTINGS = SandboxSettings()
NOW = 1_000_000.0
FINISHED = {
    "conditions": [
        {"type": "Finished", "status": "True", "reason": "Completed", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    ]
}


def test_admitted_group_is_created_up_to_its_slots(record: Records, pod: Pods) -> None:
    assert decide(record(), NOW, SETTINGS).create == range(4)
    assert decide(record(slots=3), NOW, SETTINGS).create == range(3)
    assert decide(record(pod(0), pod(1)), NOW, SETTINGS).create == range(2, 4)


@pytest.mark.parametrize(
    "blocking_fields", [{"admitted": False}, {"policy_in_place": False}, {"slots": 0}, {"rejection": "no"}]
)
def test_blocked_group_creates_no_pod(record: Records, blocking_fields: dict[str, object]) -> None:
    assert not decide(record(**blocking_fields), NOW, SETTINGS).create


def test_used_ordinal_is_not_created_again(record: Records, pod: Pods) -> None:
    assert not decide(record(pod(3), created=4), NOW, SETTINGS).create
    assert decide(record(created=4), NOW, SETTINGS).finished == (
        "Completed",
        "4 of 4 Pods ended by request of their client",
    )


def test_group_ends_when_its_last_pod_does(record: Records, pod: Pods) -> None:
    ended = [pod(i, PodStage.TERMINATED, reason="Completed") for i in range(3)]
    assert decide(record(*ended, pod(3)), NOW, SETTINGS).finished is None
    assert decide(record(*ended, pod(3, PodStage.TERMINATING, terminating_since=NOW)), NOW, SETTINGS).finished is None
    decision = decide(record(*ended, pod(3, PodStage.TERMINATED, reason="OOMKilled")), NOW, SETTINGS)
    assert decision.finished == ("Completed", "3 of 4 Pods ended by request of their client; lost: 1 OOMKilled")
    assert decision.requeue_at == NOW + SETTINGS.finished_ttl


def test_group_that_lost_every_pod_reports_the_reasons(record: Records, pod: Pods) -> None:
    terminated = [pod(i, PodStage.TERMINATED, reason="LifetimeExceeded", message="deadline") for i in range(3)]
    decision = decide(record(*terminated, pod(3, PodStage.TERMINATED, reason="Evicted")), NOW, SETTINGS)
    assert decision.finished == (
        "LifetimeExceeded",
        "every Pod was lost; lost: 1 Evicted, 3 LifetimeExceeded; swesb-g-0: deadline",
    )


def test_finished_group_is_deleted_after_its_ttl(record: Records) -> None:
    expired = record(status=FINISHED, finished_at=NOW - SETTINGS.finished_ttl, created=0)
    assert decide(expired, NOW, SETTINGS).delete_group == "Completed"
    early = decide(record(status=FINISHED, finished_at=NOW - 1), NOW, SETTINGS)
    assert (early.delete_group, early.create) == ("", range(0))


def test_expired_lease_deletes_the_group(record: Records, pod: Pods) -> None:
    assert decide(record(pod(0), lease_expired=True), NOW, SETTINGS).delete_group == "LeaseExpired"


def test_failing_pull_times_out(record: Records, pod: Pods) -> None:
    failing = pod(0, PodStage.STARTING, reason="ImagePullBackOff", message="not found")
    fresh = decide(record(failing, pull_failing_since={failing.uid: NOW - 1}), NOW, SETTINGS)
    assert not fresh.delete_pods and not fresh.stop_creation
    assert fresh.requeue_at == NOW - 1 + SETTINGS.image_pull_timeout
    old = decide(record(failing, pull_failing_since={failing.uid: NOW - SETTINGS.image_pull_timeout}), NOW, SETTINGS)
    assert [c.reason for c in old.delete_pods] == ["ImagePullFailed"]
    assert old.stop_creation and not old.create
    assert "registry/task:1" in old.delete_pods[0].message and "imagePullSecrets" in old.delete_pods[0].message
    next_decision = decide(record(created=1, lost=Counter({"ImagePullFailed": 1})), NOW, SETTINGS)
    assert next_decision.finished is not None and next_decision.finished[0] == "ImagePullFailed"


def test_invalid_image_name_fails_at_once(record: Records, pod: Pods) -> None:
    assert decide(record(pod(0, PodStage.STARTING, reason="InvalidImageName")), NOW, SETTINGS).delete_pods


def test_node_that_cannot_pull_loses_one_pod(record: Records, pod: Pods) -> None:
    failing = pod(1, PodStage.STARTING, reason="ErrImagePull")
    decision = decide(record(pod(0), failing, pull_failing_since={failing.uid: NOW - 99}), NOW, SETTINGS)
    assert [c.pod.ordinal for c in decision.delete_pods] == [1]
    assert not decision.stop_creation and decision.create == range(2, 4)


def test_waiting_pod_is_never_deleted(record: Records, pod: Pods) -> None:
    unschedulable = [pod(i, PodStage.WAITING, reason="Unschedulable", created=0.0) for i in range(4)]
    decision = decide(record(*unschedulable), NOW, SETTINGS)
    assert (decision.delete_pods, decision.delete_group, decision.finished) == ((), "", None)


def test_pod_that_keeps_terminating_has_lost_its_node(record: Records, pod: Pods) -> None:
    terminating = pod(0, PodStage.TERMINATING, terminating_since=NOW - SETTINGS.termination_timeout)
    assert [c.reason for c in decide(record(terminating), NOW, SETTINGS).delete_pods] == ["NodeLost"]


def test_unreadable_spec_fails_the_group(record: Records) -> None:
    decision = decide(record(spec={"replicas": "many"}), NOW, SETTINGS)
    assert decision.finished is not None and decision.finished[0] == "PodRejected"


def test_counts_add_up(record: Records, pod: Pods) -> None:
    pods = [pod(0), pod(2, PodStage.TERMINATED, reason="Evicted"), pod(3, PodStage.TERMINATED, reason="Completed")]
    observed = record(*pods, spec={"replicas": 8}, created=6, lost=Counter({"OOMKilled": 1}))
    counts = count_pods(observed)
    assert (counts.created, counts.ready, counts.running, counts.finished, counts.failed) == (6, 1, 1, 3, 2)
    assert observed.outstanding == 3
