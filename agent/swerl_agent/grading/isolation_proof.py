"""Whether the Pods of a Grader have shown that they reach no network.

Guarantees: until one has, no verdict comes from a Pod that has not. Only a Pod whose tests waited for its probe must
prove it: beside the tests, code of a patch could end the probe, and mask its own failure.
"""

from __future__ import annotations

from swerl_api.base import Egress
from swerl_api.isolation import UNCHECKED, probe_arguments

from .framing import Report
from .job import Infrastructure, Outcome

# What a probe that proves nothing means, by its word in a report.
UNPROVED = {
    "unproved": "it has no bash with /dev/tcp, python3 or nc: add one, or set sandbox.egress: allow, without a check",
    "unknown": "the probe in the grading Pod gave no answer in time",
}


class IsolationProof:
    """What the reports so far say; `probe`: arguments of the probe, none for Pods that need no proof."""

    def __init__(self, egress: Egress) -> None:
        self.probe = probe_arguments([]) if egress != "allow" else []
        self._proved = False
        self._reached = False  # a Pod reported a network, which code of a patch may forge

    @property
    def awaited(self) -> bool:
        """Whether the next Pod runs no test before its probe has ended."""
        return bool(self.probe) and (not self._proved or self._reached)

    def take(self, outcome: Outcome, *, image: str, awaited: bool) -> None:
        """Note what a Pod reported; raises Infrastructure where its tests waited for a probe that proved nothing."""
        if not isinstance(outcome, Report):
            return
        self._proved |= outcome.isolation == "proved"
        self._reached |= outcome.isolation.startswith("reached")
        if awaited and outcome.stage == "eval" and outcome.isolation in UNPROVED:
            raise Infrastructure(f"image {image}: {UNCHECKED}: {UNPROVED[outcome.isolation]}")
