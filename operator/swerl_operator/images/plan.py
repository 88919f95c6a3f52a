"""Which image to pull where next: a pure function of what the set asks for and what its Pods came to.

Guarantees: a node pulls at most `parallelPerNode` images at once; a pull that failed waits, twice as long each time;
after a refusal for too many requests nothing is pulled for a while; a Pod that ended counts once, however often it is
seen; all nodes get their turn, in the order of the set's images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 600.0  # seconds between the tries of one image on one node
REST = 60.0  # seconds without any pull after a refusal for too many; registries count by the minute
TOO_MANY = ("toomanyrequests", "429 too many requests")  # in what a node says of such a refusal
Place = tuple[str, str]  # node, image


@dataclass(frozen=True)
class Pull:
    """What one Pod is for and what it came to."""

    pod: str
    uid: str
    place: Place
    state: Literal["running", "pulled", "failed"]
    message: str = ""


@dataclass(frozen=True)
class Tries:
    """Failures so far of one image on one node."""

    failures: int
    again_at: float  # seconds, on the clock of `plan`
    message: str


@dataclass
class Ledger:
    """What is known of a set: kept between two looks."""

    pulled: dict[str, set[str]] = field(default_factory=dict)  # node → images
    tries: dict[Place, Tries] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # uids of the Pods that the last look noted
    rests_until: float = 0.0  # seconds, on the clock of `plan`


@dataclass(frozen=True)
class Plan:
    """Pods to delete, then pulls to start, then seconds until the earliest further try (None: nothing waits).

    `eager`: some node has room for a pull that is due, whether the budget allowed it or not.
    """

    delete: tuple[str, ...]
    create: tuple[Place, ...]
    wait: float | None
    eager: bool


def plan(
    images: Sequence[str],
    nodes: Sequence[str],
    pulls: Sequence[Pull],
    ledger: Ledger,
    now: float,
    *,
    parallel: int,
    budget: int,
) -> Plan:
    """Note in `ledger` what ended, and choose at most `budget` further pulls."""
    done = [pull for pull in pulls if pull.state != "running" or pull.place[0] not in nodes]
    for pull in done:
        if pull.uid not in ledger.ended:
            _note(ledger, pull, now)
    ledger.ended = {pull.uid for pull in done}
    running = {pull.place for pull in pulls} - {pull.place for pull in done}
    free = {node: parallel - sum(place[0] == node for place in running) for node in nodes}
    create: list[Place] = []
    eager = False
    for place in _wanted(images, nodes, ledger):
        tries = ledger.tries.get(place)
        due = (tries is None or tries.again_at <= now) and ledger.rests_until <= now
        if due and place not in running and free[place[0]] > 0:
            eager = True
            if len(create) == budget:
                break
            free[place[0]] -= 1
            create.append(place)
    times = [ledger.rests_until, *(tries.again_at for tries in ledger.tries.values())]
    wait = min((time - now for time in times if time > now), default=None)
    return Plan(tuple(pull.pod for pull in done), tuple(create), wait, eager)


def missing(images: Sequence[str], nodes: Sequence[str], ledger: Ledger) -> Mapping[str, list[str]]:
    """Images that are not there, by node."""
    return {node: [image for image in images if image not in ledger.pulled.get(node, ())] for node in nodes}


def note_failure(ledger: Ledger, place: Place, message: str, now: float) -> None:
    """One more try that came to nothing; the next one waits."""
    before = ledger.tries.get(place)
    failures = before.failures + 1 if before else 1
    pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 16), LONGEST_PAUSE)
    ledger.tries[place] = Tries(failures, now + pause, message)


def _wanted(images: Sequence[str], nodes: Sequence[str], ledger: Ledger) -> Iterator[Place]:
    for image in images:
        for node in nodes:
            if image not in ledger.pulled.get(node, ()):
                yield node, image


def _note(ledger: Ledger, pull: Pull, now: float) -> None:
    node, image = pull.place
    if pull.state == "pulled":
        ledger.pulled.setdefault(node, set()).add(image)
        ledger.tries.pop(pull.place, None)
    elif pull.state == "failed":
        note_failure(ledger, pull.place, pull.message, now)
        if any(words in pull.message.lower() for words in TOO_MANY):
            ledger.rests_until = now + REST
