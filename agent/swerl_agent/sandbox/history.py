"""Scrub of git history: an agent sees the checked-out commit and its ancestors, nothing later.

Guarantees, each verified in the sandbox:
* HEAD is on a branch, which is the only ref.
* There are no tags, remotes, stashes, reflogs, replaced or borrowed objects.
* Every object in the store is reachable from that branch or the index.
* Working tree and index are unchanged.
A repository that cannot be brought into this state raises `ScrubFailed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import ScrubFailed
from .session import Session
from .wire import OutputLimit, quoted

SCRIPT = (Path(__file__).parent / "scrub_history.sh").read_text()
SCRUB_TIMEOUT = 300.0  # seconds; repacking a large repository takes minutes


@dataclass(frozen=True)
class ScrubReport:
    """Counts before and after; zeros where the folder is not a repository."""

    commits: int  # reachable from HEAD, all kept
    objects_before: int
    objects_after: int


async def scrub_history(session: Session, workdir: str, *, id: str | None = None) -> ScrubReport:
    """Remove everything that HEAD does not reach from the repository at `workdir`; raises ScrubFailed.

    With an `id` (see Session.run) only the first call in the session scrubs; later calls return its report.
    """
    text = f"set -- {quoted(workdir)}; eval {quoted(SCRIPT)}"
    result = await session.execute(text, timeout=SCRUB_TIMEOUT, limit=OutputLimit(4096, 4096), id=id)
    counts = result.stdout.decode(errors="replace").split()
    if result.exit_code != 0 or result.timed_out or len(counts) != 3:
        raise ScrubFailed(f"git history of {workdir} was not removed: {result.output.strip() or result.exit_code}")
    return ScrubReport(*map(int, counts))
