"""Which groups run when: a pure state machine, without clock, I/O or tasks.

Guarantees:
* Every group that was opened is trained, dropped for a counted reason, or listed by `pending` for the next attempt.
* A group is trained at most `max_staleness` changes of the weights after those that it was started with. Steps that
  changed none do not count; a step that is being trained does.
* Groups start in the order of the tasks; a step's groups are handed out in that order too.
* A rollout ended by infrastructure never counts. A group needs two rollouts that count, or one if advantages do not
  compare its members. Until then its failed members run again, at most `retries` times.
* Weights may change (`may_update`) only while no evaluation runs, and no training episode either unless partial
  rollouts are allowed.
* At most `running_limit` training groups run, if it is not None; those that run when it falls go on.
* Prefetched sandboxes leave room for one more group of any kind within `max_concurrent`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from swerl_api import AlgorithmSpec, SandboxSpec
from swerl_trainer.algorithm.advantages import compares_groups, has_signal
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.group import (
    DeclareGroup,
    DiscardGroup,
    DispatchAction,
    GroupPhase,
    GroupRequest,
    GroupState,
    Rollout,
    StartMembers,
    StepGroups,
)
from swerl_trainer.rollout.staleness import staleness

STUCK_AFTER = 2  # consecutive steps' worth of groups that infrastructure ended; then the attempt ends
RETRIES = 2  # times that the members of a group that infrastructure ended run again
FILTERED_PER_STEP = 2  # groups without signal replaced per step, as a multiple of promptsPerStep; then they are kept


class Dispatcher:
    """Call `episode_ended`, `graded` and `updated` for events, execute `actions`, get steps from `take`."""

    def __init__(
        self,
        algorithm: AlgorithmSpec,
        sandbox: SandboxSpec,
        order: TaskOrder,
        *,
        retries: int = RETRIES,
        taken: int = 0,
        position: int = 0,
        pending: Iterable[int] = (),
        complete: Iterable[GroupState] = (),
        unchanged: Iterable[int] = (),
    ) -> None:
        self.algorithm = algorithm
        self.sandbox = sandbox
        self.steps = 0 if algorithm.name == "sft" else algorithm.steps
        self.retries = retries
        self.order = order
        self.taken = taken  # steps handed out
        self.version = taken  # weight version the engines have
        self.position = position  # next position of the task order
        self.draining = False
        self.running_limit: int | None = None
        self.groups: dict[str, GroupState] = {}
        self._filtered: list[GroupState] = []
        self._dropped: Counter[str] = Counter()
        self._started = 0  # training groups
        self._episodes = 0
        self._lost: Counter[str] = Counter()
        self._actions: list[DispatchAction] = []
        self._failures: list[Rollout] = []  # one per group since the last group that completed
        self._error_codes: set[str] = set()  # of all training episodes; "" for those that were not lost
        self._unchanged = set(unchanged)  # steps that changed no weight
        fresh = [group for group in complete if not self._stale(group)]
        for earlier in sorted(set(pending) - {group.position for group in fresh}):
            self._open(earlier)
        self.groups |= {group.request.id: replace(group, phase=GroupPhase.COMPLETE) for group in fresh}

    # ── actions ──

    def actions(self) -> list[DispatchAction]:
        """Actions to execute now, in order; each is returned once."""
        for group in self._of("evaluation", GroupPhase.PLANNED):
            self._start(group)
        while self._may_start():
            self._start(self._next_group())
        self._prefetch()
        actions, self._actions = self._actions, []
        return actions

    def take(self) -> StepGroups | None:
        """The groups of the next step, None while there are too few; groups that would be stale later are dropped."""
        complete = sorted(self._of("train", GroupPhase.COMPLETE), key=lambda group: group.position)
        if self.taken >= self.steps or len(complete) < self.algorithm.prompts_per_step:
            return None
        chosen = complete[: self.algorithm.prompts_per_step]
        for group in chosen:
            self._close(group)
        self.taken += 1
        for group in [*self._of("train", GroupPhase.RUNNING), *self._of("train", GroupPhase.COMPLETE)]:
            if self._stale(group) or self.taken >= self.steps:
                self._drop(group, "not_needed" if self.taken >= self.steps else "stale")
        taken = StepGroups(
            groups=tuple(chosen),
            filtered=tuple(self._filtered),
            dropped=dict(self._dropped),
            started=self._started,
            carried_over=self._train_load(),
            limit=self.running_limit,
            episodes=self._episodes,
            lost=dict(self._lost),
        )
        self._filtered, self._dropped, self._started, self._episodes, self._lost = [], Counter(), 0, 0, Counter()
        return taken

    def may_update(self) -> bool:
        """Whether new weights may go to the engines now."""
        return not self._of("evaluation") and (self.algorithm.partial_rollouts or not self.running())

    # ── events ──

    def drain(self) -> None:
        """Start no further training groups until `updated`, unless they may run over an update."""
        self.draining = not self.algorithm.partial_rollouts

    def updated(self, version: int, *, changed: bool = True) -> None:
        """The engines have `version`, the weights after the step of that number, which `changed` them or did not."""
        self.version = version
        self.draining = False
        if not changed:
            self._unchanged.add(version)

    def episode_ended(self, group: str, index: int) -> None:
        """A member of a group no longer needs its sandbox; its verdict is pending."""
        if group in self.groups:
            self.groups[group].in_sandbox.discard(index)

    def graded(self, rollout: Rollout) -> None:
        """A member of a group has its result; ignored when its group was dropped meanwhile."""
        group = self.groups.get(rollout.group)
        if group is None or rollout.index not in group.running:
            return
        group.running.discard(rollout.index)
        group.in_sandbox.discard(rollout.index)
        group.rollouts[rollout.index] = rollout
        if group.request.purpose == "train":
            self._episodes += 1
            self._lost.update([] if rollout.valid else [rollout.error_code or "unknown"])
            self._error_codes.add("" if rollout.valid else rollout.error_code or "unknown")
        if not group.running:
            self._complete(group)

    def evaluate(self, label: str, tasks: Sequence[int], samples: int, temperature: float) -> None:
        """Run `samples` episodes of each held-out task with the present weights."""
        for task in tasks:
            request = GroupRequest(f"e{label}-{task}", "evaluation", task, samples, self.taken, temperature)
            self.groups[request.id] = GroupState(request, position=-1)

    def evaluated(self) -> list[Rollout] | None:
        """All rollouts of the running evaluation once it is complete, else None."""
        groups = self._of("evaluation")
        if not groups or any(group.phase is not GroupPhase.COMPLETE for group in groups):
            return None
        for group in groups:
            self._close(group)
        return [rollout for group in groups for rollout in group.rollouts.values()]

    # ── state ──

    def complete_groups(self) -> list[GroupState]:
        """Groups that are complete and wait for a step; a later attempt may train them."""
        return self._of("train", GroupPhase.COMPLETE)

    def pending(self) -> list[int]:
        """Positions that were opened and not trained; with `position`, all that a later attempt needs to run again."""
        return sorted(group.position for group in self._of("train") if group.phase is not GroupPhase.CLOSED)

    def running(self) -> int:
        """Training groups with episodes that are not graded yet."""
        return len(self._of("train", GroupPhase.RUNNING))

    def load(self) -> dict[str, int]:
        """Groups by phase, for metrics."""
        return dict(Counter(f"{g.request.purpose}/{g.phase.name.lower()}" for g in self.groups.values()))

    def stuck(self) -> Rollout | None:
        """An example of the failures when infrastructure ended every recent group, otherwise None."""
        limit = STUCK_AFTER * self.algorithm.prompts_per_step
        return self._failures[-1] if len(self._failures) >= limit else None

    def only_lost_to(self, code: str) -> bool:
        """Whether every training episode of the attempt so far was lost with this error code."""
        return self._error_codes == {code}

    # ── decisions ──

    def _train_room(self) -> int:
        """Groups that may run or be complete at once: those of every step that they reach without becoming stale."""
        steps_ahead = min(self.version + self.algorithm.max_staleness, self.steps - 1) - self.taken
        if steps_ahead < 0:
            return 0
        per_step = self.algorithm.prompts_per_step
        return steps_ahead * per_step + math.ceil(per_step * self.algorithm.oversampling)

    def _may_start(self) -> bool:
        limited = self.running_limit is not None and self.running() >= self.running_limit
        return not self.draining and not limited and self._train_load() < self._train_room()

    def _train_load(self) -> int:
        return self.running() + len(self._of("train", GroupPhase.COMPLETE))

    def _stale(self, group: GroupState) -> bool:
        """Whether the group is too old for the step after those that were handed out."""
        return staleness(group.version, self.taken, self._unchanged) > self.algorithm.max_staleness

    def _next_group(self) -> GroupState:
        waiting = [*self._of("train", GroupPhase.DECLARED), *self._of("train", GroupPhase.PLANNED)]
        return min(waiting, key=lambda group: group.position) if waiting else self._open_next()

    def _prefetch(self) -> None:
        group_size = self.algorithm.group_size
        while len(self._of("train", GroupPhase.DECLARED)) < self.sandbox.prefetch and self._groups_wanted() > 0:
            alive = sum(len(g.in_sandbox) if g.phase is GroupPhase.RUNNING else g.request.size for g in self._alive())
            largest = max([group_size, *(g.request.size for g in self._alive())])
            if alive + group_size + largest > self.sandbox.max_concurrent:
                return
            planned = self._of("train", GroupPhase.PLANNED)
            group = min(planned, key=lambda g: g.position) if planned else self._open_next()
            group.phase = GroupPhase.DECLARED
            self._actions.append(DeclareGroup(group.request))

    def _groups_wanted(self) -> int:
        """Groups still to be opened or declared for the steps that are left."""
        opened = self._train_load() + len(self._of("train", GroupPhase.DECLARED))
        return (self.steps - self.taken) * self.algorithm.prompts_per_step - opened

    def _complete(self, group: GroupState) -> None:
        enough = min(2, group.request.size) if compares_groups(self.algorithm) else 1
        retry = group.failed and (len(group.valid) < enough or group.request.purpose == "evaluation")
        if retry and group.starts <= self.retries:
            return self._start(group, group.failed)
        if group.request.purpose == "evaluation":
            group.phase = GroupPhase.COMPLETE
            return None
        if len(group.valid) < enough:
            self._failures.append(group.rollouts[group.failed[-1]])
            return self._drop(group, "infrastructure")
        self._failures.clear()
        limit = FILTERED_PER_STEP * self.algorithm.prompts_per_step
        signal = has_signal(rollout.reward for rollout in group.valid)
        if self.algorithm.dynamic_filter and enough == 2 and len(self._filtered) < limit and not signal:
            self._filtered.append(group)
            return self._drop(group, "equal_rewards")
        group.phase = GroupPhase.COMPLETE
        return None

    # ── transitions ──

    def _open_next(self) -> GroupState:
        self.position += 1
        return self._open(self.position - 1)

    def _open(self, position: int) -> GroupState:
        algorithm, task = self.algorithm, self.order.task(position)
        request = GroupRequest(f"g{position}", "train", task, algorithm.group_size, -1, algorithm.temperature)
        return self.groups.setdefault(request.id, GroupState(request, position))

    def _start(self, group: GroupState, members: Sequence[int] | None = None) -> None:
        chosen = tuple(range(group.request.size)) if members is None else tuple(members)
        group.phase, group.running, group.in_sandbox = GroupPhase.RUNNING, set(chosen), set(chosen)
        if group.starts == 0:
            group.version = self.version
            if group.request.purpose == "train":
                self._started += 1
                ahead = (self._train_load() - 1) // self.algorithm.prompts_per_step
                group.request = replace(group.request, step=self.taken + 1 + ahead)
        self._actions.append(StartMembers(group.request, chosen, group.starts))
        group.starts += 1

    def _drop(self, group: GroupState, reason: str) -> None:
        self._dropped[reason] += 1
        if group.running or group.phase is GroupPhase.DECLARED:
            self._actions.append(DiscardGroup(group.request))
        self._close(group)

    def _close(self, group: GroupState) -> None:
        group.phase = GroupPhase.CLOSED
        del self.groups[group.request.id]

    def _of(self, purpose: str, phase: GroupPhase | None = None) -> list[GroupState]:
        return [g for g in self.groups.values() if g.request.purpose == purpose and phase in (None, g.phase)]

    def _alive(self) -> list[GroupState]:
        return [group for group in self.groups.values() if group.phase in (GroupPhase.DECLARED, GroupPhase.RUNNING)]
