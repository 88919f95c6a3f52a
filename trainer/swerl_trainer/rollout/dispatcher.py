"""Which groups run when: a pure state machine, without clock, I/O or tasks.

Guarantees:
* Every group that was opened is trained, dropped for a counted reason, or listed by `pending` for the next attempt.
* A group is trained at most `max_staleness` weight versions after the version it was started with.
* Groups start in the order of the tasks; a step's groups are handed out in that order too.
* A rollout ended by infrastructure never counts; while fewer than two of a group count, its failed members run again,
  `retries` times at most.
* Weights may change (`may_update`) only while no evaluation runs, and no training episode either unless partial
  rollouts are allowed.
* Sandboxes declared ahead leave room for one more group of any kind within `max_concurrent`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from swerl_api import AlgorithmSpec, SandboxSpec
from swerl_trainer.algorithm.advantages import has_signal
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.group import Action, Declare, Discard, Group, GroupOrder, Phase, Rollout, Start

STUCK_AFTER = 2  # steps' worth of groups in a row that infrastructure ended, after which going on is pointless
RETRIES = 2  # times that the members of a group that infrastructure ended run again
FILTERED_PER_STEP = 2  # groups without signal replaced per step, as a multiple of promptsPerStep; then they are kept


@dataclass(frozen=True)
class StepGroups:
    """What one training step is made of."""

    groups: tuple[Group, ...]  # to train on, in task order
    filtered: tuple[Group, ...]  # complete, without signal: counted in the figures, not trained
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> groups, since the last step
    episodes: int = 0  # of training that ended since the last step, those that were run again included
    lost: dict[str, int] = field(default_factory=dict)  # error code -> episodes of these that infrastructure ended


class Dispatcher:
    """Feed it `acted`, `finished` and `updated`; carry out what `actions` says; take steps with `take`."""

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
    ) -> None:
        self.algorithm = algorithm
        self.sandbox = sandbox
        self.steps = policy_steps(algorithm)
        self.retries = retries
        self.order = order
        self.taken = taken  # steps handed out
        self.version = taken  # weight version the engines have
        self.position = position  # next position of the task order
        self.draining = False
        self.groups: dict[str, Group] = {}
        self._filtered: list[Group] = []
        self._dropped: Counter[str] = Counter()
        self._episodes = 0
        self._lost: Counter[str] = Counter()
        self._actions: list[Action] = []
        self._broken: list[Rollout] = []  # one failure per group since the last group that worked
        self._endings: set[str] = set()  # of the training episodes: error codes of the lost ones, "" for the others
        for earlier in sorted(pending):
            self._open(earlier)

    # ── what to do ──

    def actions(self) -> list[Action]:
        """Actions to carry out now, in order; each is given once."""
        for group in self._of("evaluation", Phase.PLANNED):
            self._start(group)
        while not self.draining and self._train_load() < self._train_room():
            self._start(self._next_group())
        self._declare_ahead()
        actions, self._actions = self._actions, []
        return actions

    def take(self) -> StepGroups | None:
        """The groups of the next step, None while there are too few; groups that would be stale later are dropped."""
        kept = sorted(self._of("train", Phase.KEPT), key=lambda group: group.position)
        if self.taken >= self.steps or len(kept) < self.algorithm.prompts_per_step:
            return None
        chosen = kept[: self.algorithm.prompts_per_step]
        for group in chosen:
            self._close(group)
        self.taken += 1
        for group in [*self._of("train", Phase.RUNNING), *self._of("train", Phase.KEPT)]:
            if self.taken - group.version > self.algorithm.max_staleness or self.taken >= self.steps:
                self._drop(group, "not_needed" if self.taken >= self.steps else "stale")
        taken = StepGroups(tuple(chosen), tuple(self._filtered), dict(self._dropped), self._episodes, dict(self._lost))
        self._filtered, self._dropped, self._episodes, self._lost = [], Counter(), 0, Counter()
        return taken

    def may_update(self) -> bool:
        """Whether new weights may go to the engines now."""
        if self._of("evaluation"):
            return False
        return self.algorithm.partial_rollouts or not self._of("train", Phase.RUNNING)

    # ── what happened ──

    def drain(self) -> None:
        """Start no more training groups until `updated`, unless they may run over an update."""
        self.draining = not self.algorithm.partial_rollouts

    def updated(self, version: int) -> None:
        """The engines have `version`."""
        self.version = version
        self.draining = False

    def acted(self, group: str, index: int) -> None:
        """A member of a group needs its sandbox no more; its verdict is still to come."""
        if group in self.groups:
            self.groups[group].acting.discard(index)

    def finished(self, rollout: Rollout) -> None:
        """A member of a group ended; ignored when its group was dropped meanwhile."""
        group = self.groups.get(rollout.group)
        if group is None or rollout.index not in group.running:
            return
        group.running.discard(rollout.index)
        group.acting.discard(rollout.index)
        group.rollouts[rollout.index] = rollout
        if group.order.purpose == "train":
            self._episodes += 1
            self._lost.update([] if rollout.valid else [rollout.error_code or "unknown"])
            self._endings.add("" if rollout.valid else rollout.error_code or "unknown")
        if not group.running:
            self._complete(group)

    def evaluate(self, label: str, tasks: Sequence[int], samples: int, temperature: float) -> None:
        """Run `samples` episodes of each held-out task with the present weights."""
        for task in tasks:
            order = GroupOrder(f"e{label}-{task}", "evaluation", task, samples, self.taken, temperature)
            self.groups[order.id] = Group(order, position=-1)

    def evaluated(self) -> list[Rollout] | None:
        """All rollouts of the running evaluation once it is complete, else None."""
        groups = self._of("evaluation")
        if not groups or any(group.phase is not Phase.KEPT for group in groups):
            return None
        for group in groups:
            self._close(group)
        return [rollout for group in groups for rollout in group.rollouts.values()]

    # ── what to remember ──

    def pending(self) -> list[int]:
        """Positions that were opened and not trained; with `position`, all that a later attempt needs."""
        return sorted(group.position for group in self._of("train") if group.phase is not Phase.CLOSED)

    def load(self) -> dict[str, int]:
        """Groups by phase, for metrics."""
        return dict(Counter(f"{g.order.purpose}/{g.phase.name.lower()}" for g in self.groups.values()))

    def stuck(self) -> Rollout | None:
        """A rollout that shows what infrastructure does to every group lately; None while some group works."""
        limit = STUCK_AFTER * self.algorithm.prompts_per_step
        return self._broken[-1] if len(self._broken) >= limit else None

    def lost_to_nothing_but(self, code: str) -> bool:
        """Whether every training episode that ended since the attempt began was lost, and for this error code."""
        return self._endings == {code}

    # ── decisions ──

    def _train_room(self) -> int:
        """Groups that may be running or kept at once: those of each step reachable without going stale."""
        steps_ahead = min(self.version + self.algorithm.max_staleness, self.steps - 1) - self.taken
        if steps_ahead < 0:
            return 0
        per_step = self.algorithm.prompts_per_step
        return steps_ahead * per_step + math.ceil(per_step * self.algorithm.oversampling)

    def _train_load(self) -> int:
        return len(self._of("train", Phase.RUNNING)) + len(self._of("train", Phase.KEPT))

    def _next_group(self) -> Group:
        waiting = [*self._of("train", Phase.DECLARED), *self._of("train", Phase.PLANNED)]
        if waiting:
            return min(waiting, key=lambda group: group.position)
        return self._open_next()

    def _declare_ahead(self) -> None:
        group_size = self.algorithm.group_size
        while len(self._of("train", Phase.DECLARED)) < self.sandbox.prefetch and self._groups_wanted() > 0:
            alive = sum(len(g.acting) if g.phase is Phase.RUNNING else g.order.size for g in self._alive())
            largest = max([group_size, *(g.order.size for g in self._alive())])
            if alive + group_size + largest > self.sandbox.max_concurrent:
                return
            planned = self._of("train", Phase.PLANNED)
            group = min(planned, key=lambda g: g.position) if planned else self._open_next()
            group.phase = Phase.DECLARED
            self._actions.append(Declare(group.order))

    def _groups_wanted(self) -> int:
        """Groups still to be opened or declared for the steps that are left."""
        left = (self.steps - self.taken) * self.algorithm.prompts_per_step
        return left - self._train_load() - len(self._of("train", Phase.DECLARED))

    def _complete(self, group: Group) -> None:
        enough = min(2, group.order.size)
        redo = group.failed and (len(group.valid) < enough or group.order.purpose == "evaluation")
        if redo and group.tries <= self.retries:
            return self._start(group, group.failed)
        if group.order.purpose == "evaluation":
            group.phase = Phase.KEPT
            return None
        if len(group.valid) < enough:
            self._broken.append(group.rollouts[group.failed[-1]])
            return self._drop(group, "infrastructure")
        self._broken.clear()
        limit = FILTERED_PER_STEP * self.algorithm.prompts_per_step
        if self.algorithm.dynamic_filter and enough == 2 and len(self._filtered) < limit and not _has_signal(group):
            self._filtered.append(group)
            return self._drop(group, "equal_rewards")
        group.phase = Phase.KEPT
        return None

    # ── transitions ──

    def _open_next(self) -> Group:
        self.position += 1
        return self._open(self.position - 1)

    def _open(self, position: int) -> Group:
        algorithm, task = self.algorithm, self.order.task(position)
        order = GroupOrder(f"g{position}", "train", task, algorithm.group_size, -1, algorithm.temperature)
        group = self.groups[order.id] = Group(order, position)
        return group

    def _start(self, group: Group, members: Sequence[int] | None = None) -> None:
        chosen = tuple(range(group.order.size)) if members is None else tuple(members)
        group.phase, group.running, group.acting = Phase.RUNNING, set(chosen), set(chosen)
        if group.tries == 0:
            group.version = self.version
            if group.order.purpose == "train":
                ahead = (self._train_load() - 1) // self.algorithm.prompts_per_step
                group.order = replace(group.order, step=self.taken + 1 + ahead)
        self._actions.append(Start(group.order, chosen, group.tries))
        group.tries += 1

    def _drop(self, group: Group, reason: str) -> None:
        self._dropped[reason] += 1
        if group.running or group.phase is Phase.DECLARED:
            self._actions.append(Discard(group.order))
        self._close(group)

    def _close(self, group: Group) -> None:
        group.phase = Phase.CLOSED
        del self.groups[group.order.id]

    def _of(self, purpose: str, phase: Phase | None = None) -> list[Group]:
        return [g for g in self.groups.values() if g.order.purpose == purpose and phase in (None, g.phase)]

    def _alive(self) -> list[Group]:
        return [group for group in self.groups.values() if group.phase in (Phase.DECLARED, Phase.RUNNING)]


def policy_steps(algorithm: AlgorithmSpec) -> int:
    """Training steps that use rollouts."""
    return 0 if algorithm.name == "sft" else algorithm.steps


def _has_signal(group: Group) -> bool:
    return has_signal(rollout.reward for rollout in group.valid)
