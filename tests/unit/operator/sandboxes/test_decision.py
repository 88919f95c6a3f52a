"""Each decision follows from the view alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from swerl_operator.sandboxes.decide import View, decide, outstanding, tally
from swerl_operator.sandboxes.parsed import Pod, PodState
from swerl_operator.sandboxes.settings import SandboxSettings

Views = Callable[..., View]
Pods = Callable[..., Pod]
SETTINGS = SandboxSettings()
NOW = 1_000_000.0
FINISHED = {"conditions": [{"type": "Finished", "status": "True", "reason": "Completed"}]}


def test_an_admitted_group_is_created_up_to_the_places_there_are(view: Views, pod: Pods) -> None:
    assert decide(view(), SETTINGS).create == range(4)
    assert decide(view(places=3), SETTINGS).create == range(3)
    assert decide(view(pod(0), pod(1)), SETTINGS).create == range(2, 4)


@pytest.mark.parametrize("obstacle", [{"admitted": False}, {"isolated": False}, {"places": 0}, {"rejected": "no"}])
def test_nothing_is_created_against_an_obstacle(view: Views, obstacle: dict[str, object]) -> None:
    assert not decide(view(**obstacle), SETTINGS).create


def test_a_spent_ordinal_is_not_created_again(view: Views, pod: Pods) -> None:
    assert not decide(view(pod(3), created=4), SETTINGS).create
    assert decide(view(created=4), SETTINGS).finished == ("Completed", "4 of 4 Pods ended as their client wished")


def test_a_group_ends_when_its_last_pod_does(view: Views, pod: Pods) -> None:
    ended = [pod(i, PodState.ENDED, reason="Completed") for i in range(3)]
    assert decide(view(*ended, pod(3)), SETTINGS).finished is None
    assert decide(view(*ended, pod(3, PodState.ENDING, ending_since=NOW)), SETTINGS).finished is None
    decision = decide(view(*ended, pod(3, PodState.ENDED, reason="OOMKilled")), SETTINGS)
    assert decision.finished == ("Completed", "3 of 4 Pods ended as their client wished; lost: 1 OOMKilled")
    assert decision.wake == NOW + SETTINGS.finished_ttl


def test_a_group_that_lost_every_pod_says_why(view: Views, pod: Pods) -> None:
    dead = [pod(i, PodState.ENDED, reason="LifetimeExceeded", message="deadline") for i in range(3)]
    decision = decide(view(*dead, pod(3, PodState.ENDED, reason="Evicted")), SETTINGS)
    assert decision.finished == (
        "LifetimeExceeded",
        "every Pod was lost; lost: 1 Evicted, 3 LifetimeExceeded; swesb-g-0: deadline",
    )


def test_a_finished_group_is_deleted_after_its_time(view: Views) -> None:
    late = view(status=FINISHED, finished_at=NOW - SETTINGS.finished_ttl, created=0)
    assert decide(late, SETTINGS).delete_group == "Completed"
    early = decide(view(status=FINISHED, finished_at=NOW - 1), SETTINGS)
    assert (early.delete_group, early.create) == ("", range(0))


def test_an_expired_lease_ends_everything(view: Views, pod: Pods) -> None:
    assert decide(view(pod(0), lease_expired=True), SETTINGS).delete_group == "LeaseExpired"


def test_a_pull_is_given_time_and_then_given_up(view: Views, pod: Pods) -> None:
    failing = pod(0, PodState.STARTING, reason="ImagePullBackOff", message="not found")
    fresh = decide(view(failing, failing_since={failing.uid: NOW - 1}), SETTINGS)
    assert not fresh.condemn and not fresh.gave_up
    assert fresh.wake == NOW - 1 + SETTINGS.image_patience
    old = decide(view(failing, failing_since={failing.uid: NOW - SETTINGS.image_patience}), SETTINGS)
    assert [c.reason for c in old.condemn] == ["ImagePullFailed"]
    assert old.gave_up and not old.create
    assert "registry/task:1" in old.condemn[0].message and "imagePullSecrets" in old.condemn[0].message
    after = decide(view(created=1, lost={"ImagePullFailed": 1}), SETTINGS)
    assert after.finished is not None and after.finished[0] == "ImagePullFailed"


def test_a_name_that_is_no_image_is_given_up_at_once(view: Views, pod: Pods) -> None:
    assert decide(view(pod(0, PodState.STARTING, reason="InvalidImageName")), SETTINGS).condemn


def test_one_node_that_cannot_pull_costs_one_pod(view: Views, pod: Pods) -> None:
    failing = pod(1, PodState.STARTING, reason="ErrImagePull")
    decision = decide(view(pod(0), failing, failing_since={failing.uid: NOW - 99}), SETTINGS)
    assert [c.pod.ordinal for c in decision.condemn] == [1]
    assert not decision.gave_up and decision.create == range(2, 4)


def test_waiting_is_never_punished(view: Views, pod: Pods) -> None:
    stuck = [pod(i, PodState.WAITING, reason="Unschedulable", created=0.0) for i in range(4)]
    decision = decide(view(*stuck), SETTINGS)
    assert (decision.condemn, decision.delete_group, decision.finished) == ((), "", None)


def test_a_pod_that_does_not_end_has_lost_its_node(view: Views, pod: Pods) -> None:
    stuck = pod(0, PodState.ENDING, ending_since=NOW - SETTINGS.terminating_patience)
    assert [c.reason for c in decide(view(stuck), SETTINGS).condemn] == ["NodeLost"]


def test_an_unreadable_spec_fails_the_group(view: Views) -> None:
    decision = decide(view(spec={"replicas": "many"}), SETTINGS)
    assert decision.finished is not None and decision.finished[0] == "PodRejected"


def test_counts_add_up(view: Views, pod: Pods) -> None:
    pods = [pod(0), pod(2, PodState.ENDED, reason="Evicted"), pod(3, PodState.ENDED, reason="Completed")]
    seen = view(*pods, spec={"replicas": 8}, created=6, lost={"OOMKilled": 1})
    counts = tally(seen)
    assert (counts.created, counts.ready, counts.running, counts.finished, counts.failed) == (6, 1, 1, 3, 2)
    assert outstanding(seen) == 3
