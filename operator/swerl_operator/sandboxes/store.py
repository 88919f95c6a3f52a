"""The store of groups and Pods, updated by watch events, by the operator's own writes and by lists, in any order.

Guarantees:
* an older version of an object never replaces a newer one, and a deleted object never comes back (UIDs are unique);
* `GroupRecord.created` never falls: an ordinal that was seen, or counted in a written status, is never used again;
* a list removes what vanished without an event and keeps what is newer than the list.
Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swerl_api import names
from swerl_api.base import Egress
from swerl_api.conditions import SandboxReason

from ..workqueue import ObjectKey
from .group_state import SandboxGroupState
from .parsed import ParsedGroup, ParsedPod, PodStage, keep_disruption

MAX_TOMBSTONES = 16_384  # deleted UIDs remembered; far more than events that can still be under way


@dataclass(frozen=True, slots=True)
class IsolationCheck:
    """The result of the last isolation check of a group."""

    passed: bool = False
    failure: str = ""  # '' also before the first check
    count: int = 0


@dataclass
class GroupRecord:
    """One group, its Pods, and what this process knows of it."""

    uid: str
    group: ParsedGroup | None = None  # None: only Pods are known so far, or only Pods are left
    job_key: ObjectKey = ("", "")  # namespace and job of the group, kept when its object is gone
    arrival: int = 0  # orders groups created in the same second; 0: only Pods are known so far
    pods: dict[int, ParsedPod] = field(default_factory=dict)
    created: int = 0  # Pods ever created; ordinals below it are used up
    lost: Counter[str] = field(default_factory=Counter)  # Pods that are gone and were lost, by reason
    loss_messages: dict[str, str] = field(default_factory=dict)  # reason -> message about a Pod lost for it
    cpu_seconds: float = 0.0  # used by its Pods, as sampled
    pulls: dict[str, float] = field(default_factory=dict)  # Pod UID -> seconds of its image pull, if known
    deletion_reasons: dict[str, str] = field(default_factory=dict)  # UID of a Pod the operator deletes -> reason
    isolation_check: IsolationCheck = IsolationCheck()
    restored: bool = False
    was_ready: bool = False  # one of its Pods, at least
    state: SandboxGroupState = field(default_factory=SandboxGroupState)

    @property
    def existing_group(self) -> ParsedGroup:
        """The group; to be used only while its object exists."""
        assert self.group is not None, f"the object of group {self.uid} is gone"
        return self.group

    @property
    def deleted_pods(self) -> int:
        """Pods that were created and no longer exist."""
        return max(0, self.created - len(self.pods))

    @property
    def live_pods(self) -> list[ParsedPod]:
        """Pods that still need, or will need, a node."""
        return [pod for pod in self.pods.values() if pod.live]

    @property
    def outstanding(self) -> int:
        """Pods that the group still has or will create."""
        return max(0, self.existing_group.spec.replicas - self.created) + len(self.live_pods)

    @property
    def isolation_problem(self) -> str | None:
        """Why the group may not be isolated, '' before the first check; None: it is isolated, or need not be."""
        unrestricted = self.group is None or self.group.spec.egress == "allow"
        return None if unrestricted or self.isolation_check.passed else self.isolation_check.failure

    def restore(self) -> None:
        """Take over, once, what an earlier operator process wrote: Pods that are gone, CPU-seconds, the end."""
        if self.restored or self.group is None:
            return
        self.restored = True
        self.state.finished_at = self.group.finished_at
        written = self.group.status
        self.created = max(self.created, min(int(written.get("replicas") or 0), self.group.spec.replicas))
        known = sum(pod.lost for pod in self.pods.values()) + self.lost.total()
        missing = min(int(written.get("failed") or 0) - known, self.deleted_pods - self.lost.total())
        if missing > 0:
            self.lost[SandboxReason.POD_LOST] += missing
        self.cpu_seconds += float(written.get("cpuSeconds") or 0.0)
        self.was_ready = self.was_ready or self.deleted_pods > self.lost.total() or int(written.get("ready") or 0) > 0


class GroupStore:
    """Groups by key, their Pods by ordinal."""

    def __init__(self) -> None:
        self._records: dict[str, GroupRecord] = {}
        self._current: dict[ObjectKey, str] = {}  # key -> UID of the group that has this name now
        self._pod_owners: dict[str, tuple[str, int]] = {}  # Pod UID -> owner UID, ordinal
        self._owners: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)  # Lease -> groups that name it
        self._tombstones: OrderedDict[str, None] = OrderedDict()
        self._arrivals = 0

    def record(self, key: ObjectKey) -> GroupRecord | None:
        """The record of the group that has this key now, or None."""
        uid = self._current.get(key)
        return self._records.get(uid) if uid else None

    def records(self) -> Iterator[GroupRecord]:
        """All records, also those whose group is gone while Pods of it are left."""
        return iter(self._records.values())

    def namespaces(self) -> set[str]:
        """The namespaces that hold groups."""
        return {namespace for namespace, _ in self._current}

    def policies_in_use(self) -> set[tuple[str, Egress]]:
        """Namespace and egress of the groups that need a NetworkPolicy."""
        groups = [record.group for record in self._records.values() if record.group is not None]
        return {(group.key[0], group.spec.egress) for group in groups if group.spec.egress != "allow"}

    def leases(self) -> set[ObjectKey]:
        """The Leases (namespace, name) that groups name."""
        return set(self._owners)

    def owned_by(self, lease: ObjectKey) -> set[ObjectKey]:
        """Keys of the groups that name this Lease."""
        return set(self._owners.get(lease, ()))

    def owner_of(self, namespace: str, pod: str) -> GroupRecord | None:
        """The record of the group in `namespace` whose Pod has this name now, or None."""
        group = pod.removeprefix(names.SANDBOX_POD_PREFIX).rpartition("-")[0]
        return self.record((namespace, group))

    def put_group(self, group: ParsedGroup) -> GroupRecord | None:
        """Store a version of a group; its record, or None when the version is not new."""
        if group.uid in self._tombstones:
            return None
        record = self._records.setdefault(group.uid, GroupRecord(group.uid))
        if record.group is not None and record.group.version >= group.version:
            return None
        if record.group is None:
            self._arrivals += 1
            record.arrival, record.job_key = self._arrivals, group.job_key
        previous = self._current.get(group.key)
        if previous not in (None, group.uid):
            self._release_name(self._records[str(previous)])
        record.group = group
        self._current[group.key] = group.uid
        if group.spec.owner:
            self._owners[(group.key[0], group.spec.owner)].add(group.key)
        return record

    def drop_group(self, uid: str) -> GroupRecord | None:
        """Remove a deleted group and keep its Pods until they are gone, too. Its record, if it was known."""
        self._add_tombstone(uid)
        record = self._records.get(uid)
        if record is None or record.group is None:
            return None
        self._release_name(record)
        record.group = None
        self._drop_if_empty(record)
        return record

    def put_pod(self, owner: str, pod: ParsedPod) -> GroupRecord | None:
        """Store a version of a Pod of the group with UID `owner`; its record, or None when the version is not new."""
        if pod.uid in self._tombstones:
            return None
        record = self._records.setdefault(owner, GroupRecord(owner))
        known = record.pods.get(pod.ordinal)
        if known is not None and known.uid == pod.uid and known.version >= pod.version:
            return None
        if known is not None and known.uid != pod.uid:
            self.drop_pod(known.uid)
            record = self._records.setdefault(owner, record)
        if known is not None and known.uid == pod.uid:
            pod = keep_disruption(known, pod)
        record.pods[pod.ordinal] = pod
        record.created = max(record.created, pod.ordinal + 1)
        record.was_ready = record.was_ready or pod.stage is PodStage.READY
        self._pod_owners[pod.uid] = (owner, pod.ordinal)
        return record

    def record_pull(self, uid: str, seconds: float) -> None:
        """The image of the Pod with this UID was pulled in `seconds`; unknown Pods are ignored."""
        owner = self._pod_owners.get(uid)
        if owner is not None:
            self._records[owner[0]].pulls[uid] = seconds

    def drop_pod(self, uid: str, last: ParsedPod | None = None) -> GroupRecord | None:
        """Remove a Pod; `last` is its final version if the event had one. Its record, or None if it was not known."""
        self._add_tombstone(uid)
        owner = self._pod_owners.pop(uid, None)
        if owner is None:
            return None
        record = self._records[owner[0]]
        pod = record.pods.pop(owner[1])
        record.pulls.pop(uid, None)
        last = keep_disruption(pod, last) if last is not None else pod
        reason = record.deletion_reasons.pop(uid, "") or _loss_reason(last)
        if reason:
            record.lost[reason] += 1
            record.loss_messages[reason] = (last if last.message else pod).description
        else:
            record.was_ready = True
        self._drop_if_empty(record)
        return record

    def stale_groups(self, present: Iterable[str], version: int, namespace: str | None) -> list[str]:
        """UIDs of groups that a list at `version` lacks and that are not newer than it."""
        alive = set(present)
        return [
            record.uid
            for record in self._records.values()
            if record.group is not None
            and record.uid not in alive
            and record.group.version <= version
            and namespace in (None, record.group.key[0])
        ]

    def stale_pods(self, present: Iterable[str], version: int, namespace: str | None) -> list[ParsedPod]:
        """Pods that a list at `version` lacks and that are not newer than it."""
        alive = set(present)
        return [
            pod
            for record in self._records.values()
            for pod in record.pods.values()
            if namespace in (None, pod.namespace) and pod.uid not in alive and pod.version <= version
        ]

    def _release_name(self, record: GroupRecord) -> None:
        """Free the key of a group for another group of the same name."""
        group = record.group
        if group is None or self._current.get(group.key) != record.uid:
            return
        del self._current[group.key]
        lease = (group.key[0], group.spec.owner or "")
        self._owners[lease].discard(group.key)
        if not self._owners[lease]:
            del self._owners[lease]

    def _add_tombstone(self, uid: str) -> None:
        self._tombstones[uid] = None
        self._tombstones.move_to_end(uid)
        while len(self._tombstones) > MAX_TOMBSTONES:
            self._tombstones.popitem(last=False)

    def _drop_if_empty(self, record: GroupRecord) -> None:
        if record.group is None and not record.pods:
            self._records.pop(record.uid, None)


def _loss_reason(pod: ParsedPod) -> str:
    """Why a Pod that is gone counts as lost; '' when its client deleted it."""
    if pod.lost:
        return pod.reason
    return pod.disruption if pod.stage is not PodStage.TERMINATED else ""
