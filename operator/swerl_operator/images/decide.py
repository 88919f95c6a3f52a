"""Decides which image to pull on which node next: a pure function of the spec and of the results so far.

Guarantees: a node pulls at most `parallelPerNode` images at once; a failed pull is retried with doubling delays; a
rate-limit error of a registry pauses all pulls; a Pod that ended counts once, however often it is observed; pulls start
in the order of the set's images, each on all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from swerl_api import SweImageSetSpec

from .observe import Pull, PullTarget

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 15.0, 600.0  # delay of the retries of one image on one node
RATE_LIMIT_PAUSE = 60.0  # seconds without any pull after a rate-limit error; registries count by the minute
RATE_LIMIT_MESSAGES = ("toomanyrequests", "429 too many requests")  # in the message of the container runtime


@dataclass(frozen=True)
class PullFailures:
    """Failures so far of one image on one node."""

    count: int
    retry_at: float  # seconds, on the clock of `decide`
    message: str
    refused: bool = False  # the API server refused the last Pod: no node has tried to pull


@dataclass
class PullHistory:
    """The results of a set's pulls, kept between reconciliations."""

    pulled: dict[str, set[str]] = field(default_factory=dict)  # node → images
    failures: dict[PullTarget, PullFailures] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)  # UIDs of the Pods that the last reconciliation recorded
    paused_until: float = 0.0  # seconds, on the clock of `decide`


@dataclass(frozen=True)
class PullDecision:
    """Pods to delete, pulls to start, seconds until the earliest retry (None: nothing waits).

    `has_due_pulls`: some node has room for a pull that is due, whether the budget allowed it or not.
    """

    delete: tuple[str, ...]
    create: tuple[PullTarget, ...]
    requeue_after: float | None
    has_due_pulls: bool


def decide(
    spec: SweImageSetSpec,
    images: Sequence[str],
    nodes: Sequence[str],
    pulls: Sequence[Pull],
    history: PullHistory,
    now: float,
    *,
    budget: int,
) -> PullDecision:
    """Record in `history` the Pods that ended, and choose at most `budget` further pulls."""
    done = [pull for pull in pulls if pull.state != "running" or pull.target[0] not in nodes]
    for pull in done:
        if pull.uid not in history.recorded:
            _record(history, pull, now)
    history.recorded = {pull.uid for pull in done}
    running = {pull.target for pull in pulls} - {pull.target for pull in done}
    free = {node: spec.parallel_per_node - sum(target[0] == node for target in running) for node in nodes}
    create: list[PullTarget] = []
    has_due_pulls = False
    for target in _missing_targets(images, nodes, history):
        failures = history.failures.get(target)
        is_due = (failures is None or failures.retry_at <= now) and history.paused_until <= now
        if is_due and target not in running and free[target[0]] > 0:
            has_due_pulls = True
            if len(create) == budget:
                break
            free[target[0]] -= 1
            create.append(target)
    times = [history.paused_until, *(failures.retry_at for failures in history.failures.values())]
    requeue_after = min((time - now for time in times if time > now), default=None)
    return PullDecision(tuple(pull.pod for pull in done), tuple(create), requeue_after, has_due_pulls)


def missing(images: Sequence[str], nodes: Sequence[str], history: PullHistory) -> Mapping[str, list[str]]:
    """Missing images by node."""
    return {node: [image for image in images if image not in history.pulled.get(node, ())] for node in nodes}


def record_failure(
    history: PullHistory, target: PullTarget, message: str, now: float, *, refused: bool = False
) -> None:
    """Count one more failure and schedule the retry."""
    before = history.failures.get(target)
    count = before.count + 1 if before else 1
    delay = min(MIN_RETRY_SECONDS * 2 ** min(count - 1, 16), MAX_RETRY_SECONDS)
    history.failures[target] = PullFailures(count, now + delay, message, refused)


def _missing_targets(images: Sequence[str], nodes: Sequence[str], history: PullHistory) -> Iterator[PullTarget]:
    for image in images:
        for node in nodes:
            if image not in history.pulled.get(node, ()):
                yield node, image


def _record(history: PullHistory, pull: Pull, now: float) -> None:
    node, image = pull.target
    if pull.state == "pulled":
        history.pulled.setdefault(node, set()).add(image)
        history.failures.pop(pull.target, None)
    elif pull.state == "failed":
        record_failure(history, pull.target, pull.message, now)
        if any(text in pull.message.lower() for text in RATE_LIMIT_MESSAGES):
            history.paused_until = now + RATE_LIMIT_PAUSE
