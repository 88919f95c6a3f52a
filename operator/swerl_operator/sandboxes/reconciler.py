"""Reconciliation of one group: what is known becomes a view, the view a decision, the decision API calls.

Guarantees: what the API server answers to a write is known before the next decision, so a slow watch never leads to a
second Pod; every call may fail or be repeated at any point; a group is only ever handled by one worker at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from swerl_api import names

from ..errors import ApiError, Conflict, OperatorError, Unavailable
from ..metrics import Metrics
from ..workqueue import WorkQueue, bounded
from .admission_queue import Lines
from .api import Cluster
from .decide import Condemned, Decision, View, decide, outstanding
from .events import announcements
from .group_state import Memo
from .leases import Leases, LeaseState
from .manifests import sandbox_pod
from .metrics import SandboxMetrics
from .network_policy import DenyAll
from .parsed import Group, Key, Pod, owner_uid, read_group, read_pod, seconds
from .settings import SandboxSettings
from .status import desired, due, finished_at, was_admitted
from .store import Record, Store

logger = logging.getLogger(__name__)

RETRY_REFUSED = 2.0  # seconds until a refused creation is tried again


class Controller:
    """Knows every group; decides and acts for one at a time."""

    def __init__(
        self,
        cluster: Cluster,
        deny_all: DenyAll,
        store: Store,
        settings: SandboxSettings,
        metrics: SandboxMetrics,
        shared_metrics: Metrics,
    ) -> None:
        self.store = store
        self.leases = Leases(settings)
        self.lines = Lines(settings)
        self.queue: WorkQueue[Key] = WorkQueue(
            "SweSandbox", self.reconcile, shared_metrics, workers=settings.workers, lane=self._scope
        )
        self._cluster = cluster
        self._deny_all = deny_all
        self._settings = settings
        self._metrics = metrics
        self._memos: dict[str, Memo] = {}

    def enroll(self, record: Record) -> Memo | None:
        """Give a group its place: among the admitted if it ever was, else in the line. None for one without object."""
        if (group := record.group) is None:
            return None
        has_place = self.has_place(record)
        memo = self._memos.get(record.uid)
        if memo is None:
            memo = self._memos[record.uid] = Memo(scope=group.scope, finished_at=seconds(finished_at(group)))
        if group.deleting or memo.finished_at is not None:
            self._let_in(self.lines.leave(memo.scope, record.uid))
        elif has_place:
            self._hold(record, memo, self._view(record, group, memo))
        else:
            self.lines.wait(group, record.arrival)
        return memo

    def has_place(self, record: Record) -> bool:
        """Whether the group was ever let in, by this process or an earlier one."""
        record.seed()
        return record.created > 0 or (record.group is not None and was_admitted(record.group))

    def follow(self, record: Record, pod: Pod, *, gone: bool = False) -> None:
        """A Pod of the group changed: free its place in the wave, tell the one whose turn it is."""
        memo = self._memos.get(record.uid)
        if memo is None:
            return
        memo.follow(pod, time.time())
        took, turn = self.lines.follow(memo.scope, pod, gone=gone)
        if took is not None:
            self._metrics.start_seconds.observe(took)
        self._add(turn)
        if record.group is None:
            self._abandon(record, memo)

    def forget(self, record: Record) -> None:
        """The group's object is gone; its place is free when its Pods are gone too."""
        memo = self._memos.get(record.uid)
        if memo is not None:
            self._abandon(record, memo)

    async def reconcile(self, key: Key) -> float | None:
        """One step for the group; seconds until the next look."""
        record = self.store.record(key)
        memo = self.enroll(record) if record is not None else None
        if record is None or memo is None or record.group is None or record.group.deleting:
            return None
        group = record.group
        self._let_in(self.lines.admit(memo.scope))
        memo.isolated = await self._isolate(record, group, memo)
        decision = decide(self._view(record, group, memo), self._settings)
        if decision.delete_group:
            await self._delete(record, group, decision)
            return None
        if decision.gave_up:
            memo.gave_up = True
            self._add(self.lines.complete(memo.scope, record.uid))
        await self._condemn(record, group, decision.condemn)
        await self._create(record, group, memo, decision.create)
        return await self._report(record, memo)

    def _scope(self, key: Key) -> Key | None:
        """What shares a turn at the workers: the groups of one job."""
        record = self.store.record(key)
        return record.group.scope if record is not None and record.group is not None else None

    def _view(self, record: Record, group: Group, memo: Memo) -> View:
        now = time.time()
        lease = (group.key[0], group.spec.owner or "")
        state = self.leases.state(lease) if group.spec.owner else LeaseState.HELD
        missing_too_long = now - group.created > self._settings.lease_missing
        return View(
            group=group,
            pods=record.pods,
            created=record.created,
            lost=record.lost,
            ever_ready=record.ever_ready,
            admitted=self.lines.admitted(memo.scope, record.uid),
            isolated=memo.isolated,
            places=self.lines.places(memo.scope, record.uid),
            lease_expired=state is LeaseState.EXPIRED or (state is LeaseState.MISSING and missing_too_long),
            rejected=memo.rejected,
            refusal=memo.refusal,
            failing_since=memo.failing_since,
            finished_at=memo.finished_at,
            now=now,
            others_first=self.lines.others_first(memo.scope, record.uid),
            last_words=record.last_words,
            cpu_seconds=record.cpu_seconds,
            pulls=record.pulls,
            doubt=record.doubt,
        )

    async def _isolate(self, record: Record, group: Group, memo: Memo) -> bool:
        """Have the namespace's deny-all policy in place before the next Pod is created."""
        creating = self.lines.places(memo.scope, record.uid) > 0 and record.created < group.spec.replicas
        if group.spec.egress == "allow" or not creating:
            return memo.isolated
        try:
            await self._deny_all.ensure(group.key[0])
        except ApiError as error:
            logger.warning("no Pods for %s/%s: its NetworkPolicy cannot be ensured: %s", *group.key, error)
            return False
        return True

    async def keep_isolated(self, namespaces: Iterable[str | None], idle: float) -> None:
        """Keep the policies where groups need them, leave none where none did for `idle` seconds; raises ApiError."""
        for namespace in namespaces:
            await self._deny_all.keep(namespace, self.store.isolated_namespaces, idle)

    async def _create(self, record: Record, group: Group, memo: Memo, ordinals: range) -> None:
        for ordinal in ordinals:
            if record.group is None or record.group.deleting or record.created > ordinal:
                break
            name = names.sandbox_pod_name(group.key[1], ordinal)
            self.lines.started(memo.scope, name)
            try:
                pod = await self._create_one(group, ordinal, name)
            except ApiError as error:
                self.lines.withdraw(memo.scope, name)
                if memo.refused(error, time.time(), self._settings):
                    self._add(self.lines.step_aside(memo.scope, record.uid, RETRY_REFUSED))
                logger.warning("Pod %s/%s is refused: %s", group.key[0], name, error)
                break
            except OperatorError:
                self.lines.withdraw(memo.scope, name)
                raise
            memo.accepted()
            self.store.put_pod(group.uid, pod)
            self.lines.created(memo.scope, name, record.pods.get(ordinal))
            record.created = max(record.created, ordinal + 1)
        if record.created >= group.spec.replicas:
            self._add(self.lines.complete(memo.scope, record.uid))

    async def _create_one(self, group: Group, ordinal: int, name: str) -> Pod:
        try:
            body = await self._cluster.create_pod(sandbox_pod(group, ordinal, self._settings))
        except Conflict as conflict:
            # An earlier request was carried out though its answer was lost; or a namesake, or a quota, is in the way.
            found = await self._cluster.pod(group.key[0], name)
            if found is None or owner_uid(found) != group.uid:
                raise Unavailable(f"Pod {group.key[0]}/{name} must wait: {conflict}") from None
            body = found
        pod = read_pod(body)
        assert pod is not None, f"{name} carries an ordinal"
        return pod

    async def _condemn(self, record: Record, group: Group, condemned: tuple[Condemned, ...]) -> None:
        for sentence in condemned:
            pod = sentence.pod
            record.sentenced[pod.uid] = sentence.reason
            logger.info("deleting Pod %s/%s: %s: %s", group.key[0], pod.name, sentence.reason, sentence.message)
            await self._cluster.delete_pod(group.key[0], pod)
            self.store.drop_pod(pod.uid)
            self.follow(record, pod, gone=True)

    async def _delete(self, record: Record, group: Group, decision: Decision) -> None:
        logger.info("deleting SweSandbox %s/%s: %s", *group.key, decision.delete_group)
        if decision.finished is None:
            self._metrics.ended.labels(reason=decision.delete_group).inc()
        await self._cluster.delete_group(group)
        await bounded(self._cluster.delete_pod(group.key[0], pod) for pod in record.pods.values() if pod.live)
        self.store.drop_group(group.uid)
        self.forget(record)

    async def _report(self, record: Record, memo: Memo) -> float | None:
        """Write the status if it is time; seconds until this group must be looked at again."""
        if (group := record.group) is None:
            return None
        view = self._view(record, group, memo)
        decision = decide(view, self._settings)
        if decision.finished is not None and memo.finished_at is None:
            self._end(record, memo, decision.finished[0])
        elif self.lines.admitted(memo.scope, record.uid):
            self._hold(record, memo, view)
        self._let_in(self.lines.admit(memo.scope))
        wanted = desired(view, decision)
        when = due(memo.writes, group.status, wanted, group.spec.replicas, view.now, self._settings)
        if when is not None and when <= view.now:
            await self._write(group, memo, desired(await self._cluster.hear(view), decision))
            when = None
        return self._next_look(memo, record, view, [when, decision.wake])

    def _next_look(self, memo: Memo, record: Record, view: View, times: list[float | None]) -> float | None:
        delays = [moment - view.now for moment in times if moment is not None]
        turn = self.lines.next_place(memo.scope, record.uid)
        if turn is not None:
            delays.append(RETRY_REFUSED if memo.refusal is not None or not memo.isolated else turn)
        return max(0.05, min(delays)) if delays else None

    async def flush(self) -> None:
        """Before an orderly end: write down how many Pods were created where the status lags behind."""
        await bounded(
            self._flush(record, memo) for record in self.store.records() if (memo := self._memos.get(record.uid))
        )

    async def _flush(self, record: Record, memo: Memo) -> None:
        group = record.group
        if group is None or group.deleting or int(group.status.get("replicas") or 0) >= record.created:
            return
        view = self._view(record, group, memo)
        await self._write(group, memo, desired(view, decide(view, self._settings)))

    async def _write(self, group: Group, memo: Memo, status: dict[str, object]) -> None:
        memo.writes.count += 1
        memo.writes.last = time.time()
        answer = await self._cluster.patch_status(group, status)
        memo.writes.news = None
        if answer is not None:
            self.store.put_group(read_group(answer))
            for news in announcements(group.status, status):
                await self._cluster.tell(group, news)

    def _end(self, record: Record, memo: Memo, reason: str) -> None:
        memo.finished_at = time.time()
        self._metrics.ended.labels(reason=reason).inc()
        self._let_in(self.lines.leave(memo.scope, record.uid))

    def _hold(self, record: Record, memo: Memo, view: View) -> None:
        creating = record.created < view.group.spec.replicas and not memo.gave_up
        left = outstanding(view) if creating else sum(1 for pod in record.pods.values() if pod.live)
        self.lines.hold(memo.scope, record.uid, view.group.key, left, creating=creating)

    def _abandon(self, record: Record, memo: Memo) -> None:
        """The object is gone: its Pods count until they are gone too."""
        alive = sum(1 for pod in record.pods.values() if pod.live)
        if alive and self.lines.admitted(memo.scope, record.uid):
            self._add(self.lines.complete(memo.scope, record.uid))
            self.lines.resize(memo.scope, record.uid, alive)
            self._let_in(self.lines.admit(memo.scope))
        else:
            self._let_in(self.lines.leave(memo.scope, record.uid))
            self._memos.pop(record.uid, None)

    def _let_in(self, groups: list[Key]) -> None:
        for key in groups:
            self.queue.add(key)

    def _add(self, key: Key | None) -> None:
        if key is not None:
            self.queue.add(key)
