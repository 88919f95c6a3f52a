"""Compares a sample of the engines' weights with the trainer's after each update.

Guarantees: pure; an engine is wrong only by a parameter that has matched since the attempt began, in whichever engine:
one that never has is stored in another form, and is named in the log once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from swerl_trainer.weight_bucket import WeightSample

logger = logging.getLogger(__name__)

RankSums = Mapping[str, str]  # by parameter
EXPERTS = "experts."  # in the names of routed and of shared experts
_LAYER = re.compile(r"\.\d+\.")


class WeightCheck:
    """What is known of the engines of a job."""

    def __init__(self, expert_ranks: int = 1) -> None:
        """`expert_ranks`: parts into which each engine divides its experts."""
        self.expert_ranks = expert_ranks
        self.mismatches = 0  # engines found wrong so far
        self.matched: set[str] = set()  # kinds of parameters that engines hold as they are sent
        self._named: set[str] = set()  # other kinds, which the log has

    @property
    def uncompared(self) -> int:
        """Kinds of parameters that engines hold in another form."""
        return len(self._named - self.matched)

    def wrong(self, sample: WeightSample, held: Sequence[Sequence[RankSums]]) -> list[list[str]]:
        """Per engine, the parameters that differ; `held`: of each engine, by its ranks."""
        differing = [sorted(_differing(sample, ranks)) for ranks in held]
        for names, ranks in zip(differing, held, strict=True):
            self.matched |= {_kind(name) for name in _compared(sample, ranks)} - {_kind(name) for name in names}
        lacking = _names(sample).difference(*(_compared(sample, ranks) for ranks in held))
        self._name_others({_kind(name) for names in (*differing, lacking) for name in names} - self.matched)
        known = [[name for name in names if _kind(name) in self.matched] for names in differing]
        self.mismatches += sum(bool(names) for names in known)
        return known

    def equal(self, sample: WeightSample, held: Sequence[Sequence[RankSums]]) -> bool:
        """Whether every engine holds all of the sample; experts may lack, which some engines store in another form."""
        needed = {name for name in _names(sample) if EXPERTS not in name}
        complete = all(len(ranks) == len(sample.sums) and _compared(sample, ranks) >= needed for ranks in held)
        if not complete or any(_differing(sample, ranks) for ranks in held):
            return False
        self.matched |= {_kind(name) for ranks in held for name in _compared(sample, ranks)}
        return True

    def _name_others(self, kinds: set[str]) -> None:
        if new := sorted(kinds - self._named):
            self._named |= kinds
            logger.warning("not compared after updates, because engines hold them in another form: %s", ", ".join(new))


def _names(sample: WeightSample) -> set[str]:
    return {name for sums in sample.sums for name in sums}


def _compared(sample: WeightSample, ranks: Sequence[RankSums]) -> set[str]:
    return {name for mine, theirs in zip(ranks, sample.sums, strict=False) for name in theirs if name in mine}


def _differing(sample: WeightSample, ranks: Sequence[RankSums]) -> set[str]:
    """Parameters that a rank of an engine holds with another sum."""
    pairs = zip(ranks, sample.sums, strict=False)
    return {name for mine, theirs in pairs for name, value in theirs.items() if mine.get(name, value) != value}


def _kind(name: str) -> str:
    """The name without the layer's number."""
    return _LAYER.sub(".N.", name)
