"""Reconciles SweSandboxes: observe, decide on the record, make the API calls, write the status.

Guarantees: the answer of the API server to a write is stored before the next decision, so a slow watch never leads to a
second Pod; every call may fail or be repeated at any point; only one worker at a time handles a group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from swerl_api import names
from swerl_api.conditions import SandboxCondition
from swerl_kube import ApiError, Conflict, KubeError, Unavailable, WebhookFailed

from ..metrics import Metrics
from ..workqueue import ObjectKey, WorkQueue, gather_bounded
from .admission_queue import AdmissionQueue
from .api import SandboxApi
from .decide import GroupDecision, PodDeletion, decide
from .events import conditions_for_events
from .leases import LeaseState, LeaseTracker
from .manifests import sandbox_pod
from .metrics import SandboxMetrics
from .network_policy import SandboxPolicies
from .parsed import ParsedGroup, ParsedPod, owner_uid, parse_group, parse_pod
from .settings import SandboxSettings
from .status import desired_status, write_time
from .store import GroupRecord, GroupStore

logger = logging.getLogger(__name__)


class SandboxReconciler:
    """Reconciles one group at a time and keeps its place in the admission queue."""

    def __init__(
        self,
        api: SandboxApi,
        policies: SandboxPolicies,
        store: GroupStore,
        settings: SandboxSettings,
        metrics: SandboxMetrics,
        shared_metrics: Metrics,
    ) -> None:
        self.store = store
        self.leases = LeaseTracker(settings)
        self.admission = AdmissionQueue(settings)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            "SweSandbox",
            self.reconcile,
            shared_metrics,
            workers=settings.workers,
            flow=self._flow,
            retry_seconds=settings.reconcile_retry,
        )
        self._api = api
        self._policies = policies
        self._settings = settings
        self.metrics = metrics

    def track(self, record: GroupRecord) -> None:
        """Put the group among the admitted ones if it ever was, else into the admission queue."""
        group = record.existing_group
        was_admitted = self.was_admitted(record)
        if group.deleting or record.state.finished_at is not None:
            self._enqueue(*self.admission.remove(record.job_key, record.uid))
        elif was_admitted:
            self._set_outstanding(record)
        else:
            self.admission.enqueue(group, record.arrival)

    def was_admitted(self, record: GroupRecord) -> bool:
        """Whether this process or an earlier one admitted the group."""
        record.restore()
        return record.created > 0 or (
            record.group is not None and record.group.is_condition_true(SandboxCondition.ADMITTED)
        )

    def pod_changed(self, record: GroupRecord, pod: ParsedPod, *, deleted: bool = False) -> None:
        """A Pod of the group changed: free its slot and enqueue the next group."""
        if not record.arrival:
            return  # only Pods are known so far
        record.state.pod_changed(pod, time.time())
        start_seconds, next_group = self.admission.pod_changed(record.job_key, pod, deleted=deleted)
        if start_seconds is not None:
            self.metrics.start_seconds.observe(start_seconds)
        self._enqueue(next_group)
        if record.group is None:
            self.group_deleted(record)

    def group_deleted(self, record: GroupRecord) -> None:
        """The group's object is gone; its Pods count until they are gone, too."""
        live = len(record.live_pods)
        if live and self.admission.admitted(record.job_key, record.uid):
            self._enqueue(self.admission.complete(record.job_key, record.uid))
            self.admission.resize(record.job_key, record.uid, live)
            self._enqueue(*self.admission.admit(record.job_key))
        else:
            self._enqueue(*self.admission.remove(record.job_key, record.uid))

    async def reconcile(self, key: ObjectKey) -> float | None:
        """One step for the group; seconds until the next one."""
        record = self.store.record(key)
        if record is None or record.group is None:
            return None
        self.track(record)
        if record.group.deleting:
            return None
        self._enqueue(*self.admission.admit(record.job_key))
        record.state.policy_in_place = await self._ensure_policy(record)
        if record.group is None:
            return None  # deleted meanwhile
        decision = self._decide(record, time.time())
        if decision.delete_group:
            await self._delete_group(record, decision)
            return None
        if decision.stop_creation:
            record.state.creation_stopped = True
            self._enqueue(self.admission.complete(record.job_key, record.uid))
        await self._delete_pods(record, decision.delete_pods)
        await self._create_pods(record, decision.create)
        return await self._update_status(record)

    async def reconcile_policies(self, namespaces: Iterable[str | None], idle: float) -> None:
        """Keep the policies where groups need them; delete those not needed for `idle` seconds. Raises ApiError."""
        for namespace in namespaces:
            await self._policies.reconcile(namespace, self.store.policies_in_use, idle)

    async def flush(self) -> None:
        """Before an orderly end: write how many Pods were created where the status lags behind."""
        await gather_bounded(self._flush(record) for record in self.store.records() if record.restored)

    def _flow(self, key: ObjectKey) -> ObjectKey | None:
        """The groups of one job share a flow of the work queue."""
        record = self.store.record(key)
        return record.job_key if record is not None else None

    def _decide(self, record: GroupRecord, now: float) -> GroupDecision:
        """Observe what the decision needs beside the objects, then decide."""
        group, state = record.existing_group, record.state
        lease = LeaseState.HELD
        if group.spec.owner:
            lease = self.leases.state((group.key[0], group.spec.owner))
        missing_too_long = now - group.created > self._settings.missing_lease_timeout
        state.lease_expired = lease is LeaseState.EXPIRED or (lease is LeaseState.MISSING and missing_too_long)
        state.admitted = self.admission.admitted(record.job_key, record.uid)
        state.slots = self.admission.slots(record.job_key, record.uid)
        state.waits_for_other_jobs = self.admission.waits_for_other_jobs(record.job_key, record.uid)
        return decide(record, now, self._settings)

    async def _ensure_policy(self, record: GroupRecord) -> bool:
        """Have the NetworkPolicy of the group's egress in place before the next Pod is created."""
        group = record.existing_group
        creating = self.admission.slots(record.job_key, record.uid) > 0 and record.created < group.spec.replicas
        if group.spec.egress == "allow" or not creating:
            return record.state.policy_in_place
        try:
            await self._policies.ensure(group.key[0], group.spec.egress)
        except (ApiError, WebhookFailed) as error:
            logger.warning("no Pods for %s/%s: its NetworkPolicy cannot be ensured: %s", *group.key, error)
            return False
        return True

    async def _create_pods(self, record: GroupRecord, ordinals: range) -> None:
        if (group := record.group) is None:
            return
        job_key = record.job_key
        for ordinal in ordinals:
            if record.group is None or record.group.deleting or record.created > ordinal:
                break
            name = names.sandbox_pod_name(group.key[1], ordinal)
            self.admission.pod_started(job_key, name)
            try:
                pod = await self._create_pod(group, ordinal, name)
            except (ApiError, WebhookFailed) as error:
                self.admission.pod_refused(job_key, name)
                if record.state.pod_refused(error, time.time(), self._settings):
                    self._enqueue(self.admission.defer(job_key, record.uid, self._settings.refused_retry))
                logger.warning("Pod %s/%s is refused: %s", group.key[0], name, error)
                break
            except KubeError:
                self.admission.pod_refused(job_key, name)
                raise
            record.state.pod_accepted()
            self.store.put_pod(group.uid, pod)
            self.admission.pod_created(job_key, name, record.pods.get(ordinal))
            record.created = max(record.created, ordinal + 1)
        if record.created >= group.spec.replicas:
            self._enqueue(self.admission.complete(job_key, record.uid))

    async def _create_pod(self, group: ParsedGroup, ordinal: int, name: str) -> ParsedPod:
        try:
            body = await self._api.create_pod(sandbox_pod(group, ordinal, self._settings))
        except Conflict as conflict:
            # The answer to an earlier request was lost; or a Pod of another owner, or a quota, is in the way.
            found = await self._api.pod(group.key[0], name)
            if found is None or owner_uid(found) != group.uid:
                raise Unavailable(f"Pod {group.key[0]}/{name} must wait: {conflict}") from None
            body = found
        pod = parse_pod(body)
        assert pod is not None, f"{name} has an ordinal"
        return pod

    async def _delete_pods(self, record: GroupRecord, deletions: tuple[PodDeletion, ...]) -> None:
        for deletion in deletions:
            pod = deletion.pod
            record.deletion_reasons[pod.uid] = deletion.reason
            logger.info("deleting Pod %s/%s: %s: %s", pod.namespace, pod.name, deletion.reason, deletion.message)
            await self._api.delete_pod(pod.namespace, pod)
            self.store.drop_pod(pod.uid)
            self.pod_changed(record, pod, deleted=True)

    async def _delete_group(self, record: GroupRecord, decision: GroupDecision) -> None:
        group = record.existing_group
        logger.info("deleting SweSandbox %s/%s: %s", *group.key, decision.delete_group)
        if decision.finished is None:
            self.metrics.groups_ended.labels(reason=decision.delete_group).inc()
        await self._api.delete_group(group)
        await gather_bounded(self._api.delete_pod(group.key[0], pod) for pod in record.live_pods)
        self.store.drop_group(group.uid)
        self.group_deleted(record)

    async def _update_status(self, record: GroupRecord) -> float | None:
        """Write the status if it is time; seconds until the group must be reconciled again."""
        if record.group is None:
            return None
        now = time.time()
        decision = self._decide(record, now)
        if decision.finished is not None and record.state.finished_at is None:
            self._finish(record, decision.finished[0])
        elif self.admission.admitted(record.job_key, record.uid):
            self._set_outstanding(record)
        self._enqueue(*self.admission.admit(record.job_key))
        when = write_time(record, desired_status(record, decision, now), now, self._settings)
        if when is not None and when <= now:
            record.state.queue_message = await self._api.queue_message(record)
            await self._write_status(record, decision, now)
            when = None
        return self._requeue_after(record, now, [when, decision.requeue_at])

    def _requeue_after(self, record: GroupRecord, now: float, times: list[float | None]) -> float | None:
        delays = [moment - now for moment in times if moment is not None]
        next_slot = self.admission.next_slot(record.job_key, record.uid)
        if next_slot is not None:
            blocked = record.state.refusal is not None or not record.state.policy_in_place
            delays.append(self._settings.refused_retry if blocked else next_slot)
        return max(0.05, min(delays)) if delays else None

    async def _flush(self, record: GroupRecord) -> None:
        group = record.group
        if group is None or group.deleting or int(group.status.get("replicas") or 0) >= record.created:
            return
        now = time.time()
        await self._write_status(record, self._decide(record, now), now)

    async def _write_status(self, record: GroupRecord, decision: GroupDecision, now: float) -> None:
        if record.group is None:
            return
        group, status, writes = record.group, desired_status(record, decision, now), record.state.writes
        writes.count += 1
        writes.last = time.time()
        answer = await self._api.patch_status(group, status)
        writes.urgency = None
        if answer is not None:
            self.store.put_group(parse_group(answer))
            for condition in conditions_for_events(group.status, status):
                await self._api.post_event(group, condition)

    def _finish(self, record: GroupRecord, reason: str) -> None:
        record.state.finished_at = time.time()
        self.metrics.groups_ended.labels(reason=reason).inc()
        self._enqueue(*self.admission.remove(record.job_key, record.uid))

    def _set_outstanding(self, record: GroupRecord) -> None:
        group = record.existing_group
        creating = record.created < group.spec.replicas and not record.state.creation_stopped
        outstanding = record.outstanding if creating else len(record.live_pods)
        self.admission.set_outstanding(record.job_key, record.uid, group.key, outstanding, creating=creating)

    def _enqueue(self, *keys: ObjectKey | None) -> None:
        for key in keys:
            if key is not None:
                self.queue.add(key)
