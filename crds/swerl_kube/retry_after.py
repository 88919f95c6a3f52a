"""How clients read `Retry-After` (RFC 9110, section 10.2.3), and how the Kubernetes client waits for it.

Kubernetes' priority and fairness answers 429; a server that starts or stops answers 429 or 503, both with whole
seconds. The server did not carry out such a request, so every request may be repeated. Guarantees: a request is not
repeated before that time; waits are spread, so that throttled clients do not all return at once; one call waits about
`longest` seconds in all and then raises.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 30.0  # seconds; priority and fairness asks for 1 at first, for up to 32 where it drops many
LEAST_WAIT = 0.1  # seconds, where the server asks for 0
SPREAD = 1.25  # times the wait, at most, by chance
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)


def retry_after_seconds(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds until the same request may be repeated; None when the answer does not ask for a wait."""
    return parse_retry_after(headers.get("Retry-After", "")) if status in (429, 503) else None


def parse_retry_after(text: str) -> float | None:
    """Seconds of a Retry-After header, which holds seconds or a date; None when it holds neither."""
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def next_wait(retry_after: float | None, waited: float, longest: float = LONGEST_WAIT) -> float | None:
    """Seconds until the next retry of a call that has waited `waited` seconds; None when it must raise."""
    if retry_after is None or waited + retry_after > longest:
        return None
    return max(retry_after, LEAST_WAIT) * random.uniform(1.0, SPREAD)


def pause_after(error: Exception, usual: float) -> float:
    """Seconds until a caller's own next retry: `usual`, or more (up to LONGEST_WAIT) if the server asked."""
    retry_after: float | None = getattr(error, "retry_after", None)
    return max(usual, min(retry_after or 0.0, LONGEST_WAIT))
