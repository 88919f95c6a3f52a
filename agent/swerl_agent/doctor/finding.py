"""One result of one check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

FindingStatus = Literal["ok", "warning", "failed", "unknown"]


@dataclass(frozen=True)
class Finding:
    """What a check found. `warning`: some jobs fail or are slow; `unknown`: the check could not run."""

    check: str
    status: FindingStatus
    message: str
    remedy: str = ""  # what to do; empty where nothing is to be done

    def as_json(self) -> dict[str, str]:
        """Fields by name."""
        return asdict(self)

    def as_text(self) -> str:
        """One line, and the remedy on the next."""
        line = f"{self.status:8} {self.check}: {self.message}"
        return f"{line}\n         {self.remedy}" if self.remedy else line
