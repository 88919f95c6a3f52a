"""The two lines a group stands in: for admission, then for places in the wave of its job.

Guarantee: whoever becomes able to go on is named in the result of the call that made it so; nobody has to poll.
"""

from __future__ import annotations

import time

from swerl_api.conditions import SandboxReason

from .admission import Admissions
from .decide import pull_fails
from .pacing import Wave
from .parsed import Group, Key, Pod, PodState
from .settings import SandboxSettings


class Lines:
    """Admission and waves of all scopes. Groups are named by UID."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._admissions = Admissions(settings.max_concurrent)
        self._waves: dict[Key, Wave] = {}
        self._keys: dict[str, Key] = {}

    def admitted(self, scope: Key, uid: str) -> bool:
        """Whether the group was let in."""
        return self._admissions.admitted(scope, uid)

    def wait(self, group: Group, arrival: int) -> None:
        """Queue a group for admission; a second call changes nothing."""
        self._keys[group.uid] = group.key
        order = (group.created, arrival)
        self._admissions.wait(group.scope, group.uid, order, group.spec.replicas, group.spec.max_concurrent)

    def hold(self, scope: Key, uid: str, key: Key, outstanding: int, *, creating: bool) -> None:
        """An admitted group still has, or will create, `outstanding` Pods; with `creating` it stands for places."""
        self._keys[uid] = key
        self._admissions.hold(scope, uid, outstanding)
        if creating:
            self._wave(scope).join(uid)

    def resize(self, scope: Key, uid: str, outstanding: int) -> None:
        """A group whose object is gone still has `outstanding` Pods."""
        self._admissions.hold(scope, uid, outstanding)

    def admit(self, scope: Key) -> list[Key]:
        """Let in what fits; the groups let in, of any scope."""
        admitted = self._admissions.admit(scope)
        for where, uid in admitted:
            self._wave(where).join(uid)
        return [self._keys[uid] for _, uid in admitted]

    def others_first(self, scope: Key, uid: str) -> bool:
        """Whether the group waits for the Pods of other jobs only."""
        return self._admissions.others_first(scope, uid)

    def leave(self, scope: Key, uid: str) -> list[Key]:
        """A group is over; those who can go on because of it."""
        turn = self.complete(scope, uid)
        self._admissions.leave(scope, uid)
        self._keys.pop(uid, None)
        wave = self._waves.get(scope)
        if wave is not None and not wave.creators and not self._admissions.known(scope):
            del self._waves[scope]
        return ([turn] if turn else []) + self.admit(scope)

    def complete(self, scope: Key, uid: str) -> Key | None:
        """A group has created all its Pods; whose turn it is now."""
        wave = self._waves.get(scope)
        turn = wave.leave(uid, time.monotonic()) if wave is not None else None
        return self._keys.get(turn) if turn else None

    def step_aside(self, scope: Key, uid: str, seconds: float) -> Key | None:
        """A group's Pods are refused, and it will try again in `seconds`; whose turn it is meanwhile."""
        now = time.monotonic()
        turn = self._wave(scope).step_aside(uid, now + seconds, now)
        return self._keys.get(turn) if turn and turn != uid else None

    def places(self, scope: Key, uid: str) -> int:
        """Pods the group may create now."""
        wave = self._waves.get(scope)
        return wave.places(uid, time.monotonic()) if wave is not None else 0

    def next_place(self, scope: Key, uid: str) -> float | None:
        """Seconds until the group, if it is its turn or it stepped aside, may create a Pod whatever the others do."""
        wave = self._waves.get(scope)
        return wave.next_place(uid, time.monotonic()) if wave is not None else None

    def started(self, scope: Key, pod: str) -> None:
        """A Pod is being created."""
        self._wave(scope).started(pod, time.monotonic())

    def created(self, scope: Key, name: str, pod: Pod | None) -> None:
        """It was created, and is known as `pod` (None: it is gone already).

        No event need follow that frees its place: a gate is there from the start, and so is all that was found of a Pod
        whose creation had no answer.
        """
        if pod is None or pod.state is PodState.READY or _no_burden(pod):
            self._wave(scope).release(name)

    def withdraw(self, scope: Key, pod: str) -> None:
        """It could not be created."""
        self._wave(scope).release(pod)

    def follow(self, scope: Key, pod: Pod, *, gone: bool) -> tuple[float | None, Key | None]:
        """A Pod changed: seconds it took to become ready (else None), and whose turn it is if a place became free."""
        wave = self._waves.get(scope)
        if wave is None or pod.name not in wave.starting:
            return None, None
        took: float | None = None
        if pod.state is PodState.READY and not gone:
            took = wave.ready(pod.name, time.monotonic())
        elif gone or _no_burden(pod):
            wave.release(pod.name)
        else:
            return None, None
        head = wave.head(time.monotonic())
        return took, self._keys.get(head) if head else None

    def _wave(self, scope: Key) -> Wave:
        if scope not in self._waves:
            settings = self._settings
            self._waves[scope] = Wave(settings.wave, settings.wave_limit, settings.slow_start)
        return self._waves[scope]


def _no_burden(pod: Pod) -> bool:
    waits = pod.state is PodState.WAITING and pod.reason in (
        SandboxReason.UNSCHEDULABLE,
        SandboxReason.SCHEDULING_GATED,
    )
    return waits or pull_fails(pod) or pod.state in (PodState.ENDING, PodState.ENDED)
