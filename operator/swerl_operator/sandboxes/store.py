"""The operator's memory of groups and Pods, fed by watch events, by its own writes and by lists, in any order.

Guarantees:
* an older version of an object never replaces a newer one, and a deleted object never comes back (no UID is reused);
* `Record.created` never falls: an ordinal that was ever seen, or that a status ever told of, is never created again;
* a list removes what vanished without an event and keeps what is newer than the list.
Nothing here does I/O or looks at a clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swerl_api import names
from swerl_api.conditions import SandboxReason

from .parsed import Group, Key, Pod, PodState, followed, said_of

TOMBSTONES = 16_384  # deleted UIDs remembered; far more than events that can still be under way


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a Pod of a group was seen to reach nothing."""

    given: bool = False
    objection: str = ""  # why not
    tries: int = 0


@dataclass
class Record:
    """One group and what became of its Pods."""

    uid: str
    group: Group | None = None  # None: only Pods are known so far, or only Pods are left
    arrival: int = 0  # order in which groups became known, to part groups created in the same second
    pods: dict[int, Pod] = field(default_factory=dict)
    created: int = 0  # Pods ever created; ordinals below it are spent
    lost: Counter[str] = field(default_factory=Counter)  # Pods that are gone and were lost, by reason
    last_words: dict[str, str] = field(default_factory=dict)  # reason -> what was said of a Pod that is gone for it
    cpu_seconds: float = 0.0  # used by its Pods, as sampled
    pulls: dict[str, float] = field(default_factory=dict)  # UID of a Pod -> seconds its image's pull took, if heard
    sentenced: dict[str, str] = field(default_factory=dict)  # UID of a Pod the operator deletes -> reason
    proof: Proof = Proof()
    seeded: bool = False
    ever_ready: bool = False

    @property
    def gone(self) -> int:
        """Pods that were created and exist no longer."""
        return max(0, self.created - len(self.pods))

    @property
    def doubt(self) -> str | None:
        """Why the group is not known to be isolated, '' where nobody has asked yet; None: it is, or need not be."""
        free = self.group is None or self.group.spec.egress == "allow"
        return None if free or self.proof.given else self.proof.objection

    def seed(self) -> None:
        """Take over, once, what an earlier operator process wrote: of Pods that are gone, and of CPU that was used."""
        if self.seeded or self.group is None:
            return
        self.seeded = True
        told = self.group.status
        self.created = max(self.created, min(int(told.get("replicas") or 0), self.group.spec.replicas))
        known = sum(pod.lost for pod in self.pods.values()) + self.lost.total()
        missing = min(int(told.get("failed") or 0) - known, self.gone - self.lost.total())
        if missing > 0:
            self.lost[SandboxReason.POD_LOST] += missing
        self.cpu_seconds += float(told.get("cpuSeconds") or 0.0)
        self.ever_ready = self.ever_ready or self.gone > self.lost.total() or int(told.get("ready") or 0) > 0


class Store:
    """Groups by key, their Pods by ordinal."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._current: dict[Key, str] = {}  # key -> UID of the group that has this name now
        self._pod_home: dict[str, tuple[str, int]] = {}  # Pod UID -> owner UID, ordinal
        self._owners: dict[Key, set[Key]] = defaultdict(set)  # Lease -> groups that name it
        self._dead: OrderedDict[str, None] = OrderedDict()
        self._arrivals = 0

    def record(self, key: Key) -> Record | None:
        """The record of the group that has this key now, or None."""
        uid = self._current.get(key)
        return self._records.get(uid) if uid else None

    def records(self) -> Iterator[Record]:
        """All records, also those whose group is gone but not its Pods."""
        return iter(self._records.values())

    def namespaces(self) -> set[str]:
        """The namespaces that hold groups."""
        return {namespace for namespace, _ in self._current}

    def isolated_namespaces(self) -> set[str]:
        """The namespaces that hold groups without a network."""
        groups = (record.group for record in self._records.values())
        return {group.key[0] for group in groups if group is not None and group.spec.egress == "none"}

    def leases(self) -> set[Key]:
        """The Leases (namespace, name) that groups name."""
        return set(self._owners)

    def owned_by(self, lease: Key) -> set[Key]:
        """Keys of the groups that name this Lease."""
        return set(self._owners.get(lease, ()))

    def by_uid(self, uid: str) -> Record | None:
        """The record of the group with this UID, or None."""
        return self._records.get(uid)

    def owner_of(self, namespace: str, pod: str) -> Record | None:
        """The record of the group in `namespace` whose Pod has this name now, or None."""
        group = pod.removeprefix(names.SANDBOX_POD_PREFIX).rpartition("-")[0]
        return self.record((namespace, group))

    def put_group(self, group: Group) -> Record | None:
        """Take in a group as it is; its record, or None when this says nothing new."""
        if group.uid in self._dead:
            return None
        record = self._records.setdefault(group.uid, Record(group.uid))
        if record.group is not None and record.group.version >= group.version:
            return None
        if record.group is None:
            self._arrivals += 1
            record.arrival = self._arrivals
        previous = self._current.get(group.key)
        if previous not in (None, group.uid):
            self._release_name(self._records[str(previous)])
        record.group = group
        self._current[group.key] = group.uid
        if group.spec.owner:
            self._owners[(group.key[0], group.spec.owner)].add(group.key)
        return record

    def drop_group(self, uid: str) -> Record | None:
        """Forget a deleted group; its Pods are kept until they are gone too. Its record, if it was known."""
        self._bury(uid)
        record = self._records.get(uid)
        if record is None or record.group is None:
            return None
        self._release_name(record)
        record.group = None
        self._forget_if_empty(record)
        return record

    def put_pod(self, owner: str, pod: Pod) -> Record | None:
        """Take in a Pod of the group with UID `owner`; its record, or None when this says nothing new."""
        if pod.uid in self._dead:
            return None
        record = self._records.setdefault(owner, Record(owner))
        known = record.pods.get(pod.ordinal)
        if known is not None and known.uid == pod.uid and known.version >= pod.version:
            return None
        if known is not None and known.uid != pod.uid:
            self.drop_pod(known.uid)
            record = self._records.setdefault(owner, record)
        if known is not None and known.uid == pod.uid:
            pod = followed(known, pod)
        record.pods[pod.ordinal] = pod
        record.created = max(record.created, pod.ordinal + 1)
        record.ever_ready = record.ever_ready or pod.state is PodState.READY
        self._pod_home[pod.uid] = (owner, pod.ordinal)
        return record

    def heard_pull(self, uid: str, seconds: float) -> None:
        """The image of the Pod with this UID was pulled in `seconds`; a Pod that is not known is none of ours."""
        home = self._pod_home.get(uid)
        if home is not None:
            self._records[home[0]].pulls[uid] = seconds

    def drop_pod(self, uid: str, last: Pod | None = None) -> Record | None:
        """A Pod is gone; `last` is its final state if the event told it. Its record, or None if it was not known."""
        self._bury(uid)
        home = self._pod_home.pop(uid, None)
        if home is None:
            return None
        record = self._records[home[0]]
        pod = record.pods.pop(home[1])
        record.pulls.pop(uid, None)
        last = followed(pod, last) if last is not None else pod
        reason = record.sentenced.pop(uid, "") or _loss(last)
        if reason:
            record.lost[reason] += 1
            record.last_words[reason] = said_of(last if last.message else pod)
        else:
            record.ever_ready = True
        self._forget_if_empty(record)
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

    def stale_pods(self, present: Iterable[str], version: int, namespace: str | None) -> list[Pod]:
        """Pods that a list at `version` lacks and that are not newer than it."""
        alive = set(present)
        return [
            pod
            for record in self._records.values()
            for pod in record.pods.values()
            if namespace in (None, pod.namespace) and pod.uid not in alive and pod.version <= version
        ]

    def _release_name(self, record: Record) -> None:
        """The group no longer answers to its key; one of the same name may."""
        group = record.group
        if group is None or self._current.get(group.key) != record.uid:
            return
        del self._current[group.key]
        lease = (group.key[0], group.spec.owner or "")
        self._owners[lease].discard(group.key)
        if not self._owners[lease]:
            del self._owners[lease]

    def _bury(self, uid: str) -> None:
        self._dead[uid] = None
        self._dead.move_to_end(uid)
        while len(self._dead) > TOMBSTONES:
            self._dead.popitem(last=False)

    def _forget_if_empty(self, record: Record) -> None:
        if record.group is None and not record.pods:
            self._records.pop(record.uid, None)


def _loss(pod: Pod) -> str:
    """Why a Pod that is gone counts as lost; '' when its client let it go."""
    if pod.lost:
        return pod.reason
    return pod.doomed if pod.state is not PodState.ENDED else ""
