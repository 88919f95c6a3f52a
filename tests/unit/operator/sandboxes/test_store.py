"""The memory stays right whatever the order of events, answers and lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from swerl_operator.sandboxes.parsed import ParsedGroup, ParsedPod, PodStage
from swerl_operator.sandboxes.store import GroupStore

Groups = Callable[..., ParsedGroup]
Pods = Callable[..., ParsedPod]


def test_older_version_never_replaces_a_newer_one(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    record = store.put_pod("uid-g", pod(0, PodStage.READY, version=5))
    assert store.put_pod("uid-g", pod(0, PodStage.STARTING, version=4)) is None
    assert record is not None and record.pods[0].stage is PodStage.READY
    assert store.put_group(group()) is record
    assert store.put_group(group()) is None


def test_deleted_object_is_not_restored(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    store.put_group(group())
    store.put_pod("uid-g", pod(1))
    store.drop_pod("pod-g-1")
    assert store.put_pod("uid-g", pod(1, version=99)) is None
    record = store.record(("ns", "g"))
    assert record is not None and (record.created, record.pods) == (2, {})
    store.drop_group("uid-g")
    assert store.put_group(replace(group(), version=99)) is None
    assert store.record(("ns", "g")) is None


def test_deletion_of_an_unknown_pod_is_ignored() -> None:
    assert GroupStore().drop_pod("never-seen") is None


def test_reasons_of_lost_pods_are_counted(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    record = store.put_group(group())
    assert record is not None
    for each in (
        pod(0),
        pod(1, PodStage.TERMINATED, reason="OOMKilled"),
        pod(2, PodStage.TERMINATING, disruption="NodeLost"),
        pod(3, PodStage.TERMINATED, reason="Completed"),
    ):
        store.put_pod("uid-g", each)
        store.drop_pod(each.uid)
    assert record.lost == {"OOMKilled": 1, "NodeLost": 1}
    assert (record.created, record.deleted_pods) == (4, 4)


def test_reason_of_a_disruption_is_kept_until_the_end(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    store.put_group(group())
    ending = pod(0, PodStage.TERMINATING, disruption="PodDeleted", message="an administrator", version=2)
    store.put_pod("uid-g", ending)
    store.put_pod("uid-g", pod(0, PodStage.TERMINATED, reason="Completed", version=3))
    last = pod(0, PodStage.TERMINATED, reason="Completed", version=4)
    record = store.drop_pod("pod-g-0", last)
    assert record is not None
    assert (record.lost, record.loss_messages) == ({"PodDeleted": 1}, {"PodDeleted": "swesb-g-0: an administrator"})


def test_list_removes_what_vanished_and_keeps_what_is_newer(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    store.put_group(group())
    store.put_pod("uid-g", pod(0, version=5))
    store.put_pod("uid-g", pod(1, version=9))
    assert [p.ordinal for p in store.stale_pods([], 7, None)] == [0]
    assert store.stale_pods([], 7, "elsewhere") == []
    store.put_pod("uid-unknown", pod(0, namespace="elsewhere", uid="orphan", version=5))
    assert [p.ordinal for p in store.stale_pods([], 7, "ns")] == [0], "that orphan is elsewhere"
    assert [p.uid for p in store.stale_pods([], 7, "elsewhere")] == ["orphan"]
    assert store.stale_groups([], 7, "ns") == ["uid-g"]
    assert store.stale_groups(["uid-g"], 7, "ns") == []


def test_new_group_of_the_same_name_replaces_the_earlier_one(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    store.put_group(group(uid="first", owner="lease"))
    store.put_pod("first", pod(0))
    store.put_group(replace(group(uid="second", owner="lease"), version=2))
    record = store.record(("ns", "g"))
    assert record is not None and (record.uid, record.created) == ("second", 0)
    assert store.leases() == {("ns", "lease")}
    assert store.stale_groups(["second"], 2, None) == ["first"], "its deletion is still to be processed"
    assert store.drop_group("first") is not None and store.record(("ns", "g")) is record
    store.drop_group("second")
    assert store.leases() == set()


def test_counts_are_restored_from_the_written_status(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    written = replace(group(), status={"replicas": 4, "failed": 1, "finished": 2, "cpuSeconds": 12.3})
    record = store.put_group(written)
    assert record is not None
    store.put_pod("uid-g", pod(1))
    record.cpu_seconds += 1.0
    record.restore()
    assert (record.created, record.deleted_pods, record.lost.total(), record.cpu_seconds) == (4, 3, 1, 13.3)
    record.restore()
    assert (record.lost.total(), record.cpu_seconds) == (1, 13.3)


def test_pull_is_kept_as_long_as_its_pod(group: Groups, pod: Pods) -> None:
    store = GroupStore()
    record = store.put_group(group())
    assert record is not None
    store.put_pod("uid-g", pod(0))
    store.record_pull("pod-g-0", 1.5)
    store.record_pull("somebody-elses", 2.5)
    assert record.pulls == {"pod-g-0": 1.5}
    store.drop_pod("pod-g-0")
    assert record.pulls == {}
