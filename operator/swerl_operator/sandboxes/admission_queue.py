"""The two queues of a group: for admission, then for slots in the start window of its job.

Guarantee: the call that lets another group proceed returns that group, so nothing needs to poll.
"""

from __future__ import annotations

import time

from swerl_api.conditions import SandboxReason

from ..workqueue import ObjectKey
from .admission import FairAdmission
from .parsed import ParsedGroup, ParsedPod, PodStage
from .settings import SandboxSettings
from .start_window import StartWindow


class AdmissionQueue:
    """Admission and start windows of all jobs. Groups are identified by UID."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._admission = FairAdmission(settings.max_concurrent)
        self._windows: dict[ObjectKey, StartWindow] = {}
        self._keys: dict[str, ObjectKey] = {}

    def admitted(self, job_key: ObjectKey, uid: str) -> bool:
        """Whether the group was admitted."""
        return self._admission.admitted(job_key, uid)

    def enqueue(self, group: ParsedGroup, arrival: int) -> None:
        """Queue a group for admission; a second call changes nothing."""
        self._keys[group.uid] = group.key
        order = (group.created, arrival)
        self._admission.enqueue(group.job_key, group.uid, order, group.spec.replicas, group.spec.max_concurrent)

    def set_outstanding(
        self, job_key: ObjectKey, uid: str, key: ObjectKey, outstanding: int, *, creating: bool
    ) -> None:
        """An admitted group still has, or will create, `outstanding` Pods; with `creating` it queues for slots."""
        self._keys[uid] = key
        self._admission.set_outstanding(job_key, uid, outstanding)
        if creating:
            self._window(job_key).add(uid)

    def resize(self, job_key: ObjectKey, uid: str, outstanding: int) -> None:
        """A group whose object is gone still has `outstanding` Pods."""
        self._admission.set_outstanding(job_key, uid, outstanding)

    def admit(self, job_key: ObjectKey) -> list[ObjectKey]:
        """Admit what fits; the admitted groups, of any job."""
        admitted = self._admission.admit(job_key)
        for admitted_key, uid in admitted:
            self._window(admitted_key).add(uid)
        return [self._keys[uid] for _, uid in admitted]

    def waits_for_other_jobs(self, job_key: ObjectKey, uid: str) -> bool:
        """Whether the group waits for the Pods of other jobs only."""
        return self._admission.waits_for_other_jobs(job_key, uid)

    def remove(self, job_key: ObjectKey, uid: str) -> list[ObjectKey]:
        """A group is over; the groups that can proceed because of it."""
        next_group = self.complete(job_key, uid)
        self._admission.remove(job_key, uid)
        self._keys.pop(uid, None)
        window = self._windows.get(job_key)
        if window is not None and not window.creating_groups and not self._admission.known(job_key):
            del self._windows[job_key]
        return ([next_group] if next_group else []) + self.admit(job_key)

    def complete(self, job_key: ObjectKey, uid: str) -> ObjectKey | None:
        """A group has created all its Pods; the next group."""
        window = self._windows.get(job_key)
        next_group = window.remove(uid, time.monotonic()) if window is not None else None
        return self._keys.get(next_group) if next_group else None

    def defer(self, job_key: ObjectKey, uid: str, seconds: float) -> ObjectKey | None:
        """A group's Pods are refused and it retries in `seconds`; the group that goes first until then."""
        now = time.monotonic()
        next_group = self._window(job_key).defer(uid, now + seconds, now)
        return self._keys.get(next_group) if next_group and next_group != uid else None

    def slots(self, job_key: ObjectKey, uid: str) -> int:
        """Pods the group may create now."""
        window = self._windows.get(job_key)
        return window.slots(uid, time.monotonic()) if window is not None else 0

    def next_slot(self, job_key: ObjectKey, uid: str) -> float | None:
        """Seconds until the group, if it is next or deferred, may create a Pod whatever the others do."""
        window = self._windows.get(job_key)
        return window.next_slot(uid, time.monotonic()) if window is not None else None

    def pod_started(self, job_key: ObjectKey, pod: str) -> None:
        """A Pod is being created."""
        self._window(job_key).started(pod, time.monotonic())

    def pod_created(self, job_key: ObjectKey, name: str, pod: ParsedPod | None) -> None:
        """The Pod was created as `pod` (None: it is gone already).

        It may need no slot from the start, and then no event follows that would free it: a gated Pod, or one whose
        creation had no answer and that was found later.
        """
        if pod is None or pod.stage is PodStage.READY or _needs_no_slot(pod):
            self._window(job_key).release(name)

    def pod_refused(self, job_key: ObjectKey, pod: str) -> None:
        """The Pod could not be created."""
        self._window(job_key).release(pod)

    def pod_changed(
        self, job_key: ObjectKey, pod: ParsedPod, *, deleted: bool
    ) -> tuple[float | None, ObjectKey | None]:
        """A Pod changed: the seconds of its start if it became ready, and the next group if a slot became free."""
        window = self._windows.get(job_key)
        if window is None or pod.name not in window.starting:
            return None, None
        start_seconds: float | None = None
        if pod.stage is PodStage.READY and not deleted:
            start_seconds = window.ready(pod.name, time.monotonic())
        elif deleted or _needs_no_slot(pod):
            window.release(pod.name)
        else:
            return None, None
        head = window.head(time.monotonic())
        return start_seconds, self._keys.get(head) if head else None

    def _window(self, job_key: ObjectKey) -> StartWindow:
        if job_key not in self._windows:
            settings = self._settings
            self._windows[job_key] = StartWindow(
                settings.start_window, settings.max_start_window, settings.slot_timeout
            )
        return self._windows[job_key]


def _needs_no_slot(pod: ParsedPod) -> bool:
    waits = pod.stage is PodStage.WAITING and pod.reason in (
        SandboxReason.UNSCHEDULABLE,
        SandboxReason.SCHEDULING_GATED,
    )
    return waits or pod.start_fails or pod.stage in (PodStage.TERMINATING, PodStage.TERMINATED)
