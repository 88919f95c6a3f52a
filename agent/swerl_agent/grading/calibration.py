"""Which alterations of a task's tests its reference fix survives, and how many copies of tests one run can afford.

Guarantee: however slow the tests, a run keeps one copy that must pass of each test that it alters. All names differ
where that is possible. Of each test that decides it also keeps copies that must fail: one for each usable
kind of change of each value, else those with a failing end. A copy that must pass is never the first execution of its
test.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .alterations import CopyPlace, Names, copy_names
from .replaced_values import is_extra
from .test_targets import Target

COPIES_SECONDS = 2.0  # that the copies of tests in one run may take together, or as long as the tests themselves took
FEWEST_COPIES = 5  # that a run has even so
OWN_LITERALS = "own literals"  # a change that an honest implementation does not notice
COPY_PLACES: tuple[CopyPlace, ...] = ("beside", "class", "file")  # each changes the names that the one before does too


@dataclass(frozen=True)
class Alteration:
    """One change of one test: `place` '' is the test itself, else that of a copy; `change` '' is none."""

    place: CopyPlace | Literal[""]
    change: str  # '' | own literals | end | value:<number>:<seed> | example
    before: bool = False  # whether a copy runs before the test

    @property
    def passes(self) -> bool:
        """Whether the altered test must pass."""
        return self.change in ("", OWN_LITERALS)


@dataclass(frozen=True)
class Calibration:
    """The alterations of a task that its reference fix survives, by test."""

    usable: Mapping[str, tuple[Alteration, ...]]
    side_effects: tuple[str, ...] = ()  # on the tests' files and what they rely on, in words
    copy_seconds: float = 0.0  # that a copy of a test took
    run_seconds: float = 0.0  # that all tests took without alterations, on the same machine at about the same time
    limited: str = ""  # the limit that ended the reference fix's runs, where there is no altered run; never kept

    @property
    def available(self) -> bool:
        """Whether there is an altered run at all."""
        return any(self.usable.values())

    def as_json(self) -> dict[str, Any]:
        """Plain data, which `from_json` reads."""
        usable = {test: [asdict(each) for each in usable] for test, usable in self.usable.items()}
        seconds = {"copy_seconds": self.copy_seconds, "run_seconds": self.run_seconds}
        return {"usable": usable, "side_effects": list(self.side_effects), **seconds}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Calibration:
        """What `as_json` gave."""
        usable = {test: tuple(Alteration(**each) for each in found) for test, found in content["usable"].items()}
        seconds = float(content["copy_seconds"]), float(content.get("run_seconds", 0.0))
        return cls(usable, tuple(content["side_effects"]), *seconds)


Choice = tuple[Target, Alteration]


def names_of_copies(chosen: Iterable[Choice], rng: random.Random) -> dict[tuple[Target, str, bool], list[Names]]:
    """New names of the copies, sorted as the copies are chosen."""
    counts = Counter((target, alteration.place, alteration.before) for target, alteration in chosen if alteration.place)
    return {
        (target, place, before): copy_names(
            target.names, place, rng, before=before, count=counts[target, place, before]
        )
        for target, place, before in counts
    }


def within_copy_budget(
    chosen: Sequence[Choice], deciding: Collection[Target], calibration: Calibration, rng: random.Random
) -> list[Choice]:
    """Without copies that would take too long. Those that this module guarantees stay; then those that must fail come
    before those that must pass, those of deciding tests first; at least FEWEST_COPIES stay."""
    copies = [each for each in chosen if each[1].place]
    if not calibration.copy_seconds:
        return list(_failing_first(chosen))
    copies = rng.sample(copies, len(copies))
    needed = [kept for target in {each[0]: None for each in copies} for kept in _needed(target, copies, deciding)]
    others = [each for each in copies if each not in needed]
    others.sort(key=lambda each: (each[1].passes, each[0] not in deciding))
    affordable = int(max(COPIES_SECONDS, calibration.run_seconds) / calibration.copy_seconds)
    kept = [*needed, *others][: max(len(needed), FEWEST_COPIES, affordable)]
    return list(_failing_first([each for each in chosen if each in kept or not each[1].place]))


def _failing_first(chosen: Iterable[Choice]) -> Iterator[Choice]:
    """Without copies that must pass and run before their test, where none that must fail runs before them."""
    failed: set[Target] = set()
    for target, alteration in chosen:
        if not alteration.before or not alteration.passes or target in failed:
            yield target, alteration
        if alteration.before and not alteration.passes:
            failed.add(target)


def _needed(target: Target, copies: Sequence[Choice], deciding: Collection[Target]) -> list[Choice]:
    own = [each for each in copies if each[0] == target]
    passing = [each for each in own if each[1].passes]
    passing.sort(key=lambda each: (COPY_PLACES.index(each[1].place), not each[1].before))
    failing = [each for each in own if not each[1].passes] if target in deciding else []
    return [*passing[-1:], *([each for each in failing if not is_extra(each[1].change)] or failing[:1])]
