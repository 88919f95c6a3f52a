"""The noun `Verdict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any, Literal

VerdictStatus = Literal["resolved", "unresolved", "patch_apply_failed", "policy_blocked", "timeout", "infra_error"]

PASSING_STATES = ("infra_error", "timeout")  # statuses that are no lasting truth


@dataclass(frozen=True)
class Verdict:
    """What grading says of one patch.

    `infra_error` says nothing about the patch and must not count as a reward; every other status does.
    """

    status: VerdictStatus
    report: dict[str, Any] = field(default_factory=dict)  # swebench's report of the instance, and what grading did
    duration: float = 0.0  # seconds from the request to the verdict, queueing and retries included
    cached: bool = False
    detail: str = ""  # one line for people
    image: str = ""  # that the grading ran, as its node resolved it
    log: str = field(default="", repr=False)  # the end of its log, for people; '' where nothing ran

    def __post_init__(self) -> None:
        """Replace control characters in the detail: it is printed on terminals, and a patch may have written it."""
        shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in self.detail)
        object.__setattr__(self, "detail", shown)

    @property
    def lasting(self) -> bool:
        """Whether the same request has this verdict next time, too: no limit of time or memory decided it."""
        if self.status in PASSING_STATES or "exhausted" in self.report or self.report.get("limited"):
            return False
        return self.resolved or not (self.report.get("oom_kills") or "killed by" in self.detail)

    @property
    def resolved(self) -> bool:
        """Whether the patch solves the task."""
        return self.status == "resolved"

    def public(self) -> dict[str, Any]:
        """The verdict without its log and the names of the tests that decided it: how many did what, and no name in any
        text."""
        status = self.report.get("tests_status") or {}
        names = {test for outcomes in status.values() for tests in outcomes.values() for test in tests}
        counts = {kind: {outcome: len(t) for outcome, t in outcomes.items()} for kind, outcomes in status.items()}
        absent = self.report.get("never_appeared") or {}
        names |= {*absent, *filter(None, absent.values())}
        counted: dict[str, Any] = {"tests_status": counts} if counts else {}
        counted |= {"never_appeared": len(absent)} if absent else {}
        shown = {**asdict(self), "report": {**self.report, **counted}}
        del shown["log"]
        without: dict[str, Any] = _without(shown, sorted(names, key=len, reverse=True))
        return without


class GradingIncomplete(Exception):
    """No grading Job finished; `verdict` says so."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.detail)
        self.verdict = verdict


NO_PATCH = Verdict("unresolved", {"patch_is_None": True}, detail="no patch")


def _without(value: Any, names: Sequence[str]) -> Any:
    """`value` with every name in its texts replaced."""
    if isinstance(value, str):
        return reduce(lambda text, name: text.replace(name, "<test>"), names, value)
    if isinstance(value, Mapping):
        return {key: _without(item, names) for key, item in value.items()}
    return [_without(item, names) for item in value] if isinstance(value, list | tuple) else value
