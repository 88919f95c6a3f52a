"""How a client waits when an API server turns it away and says for how long (RFC 9110, section 10.2.3).

Kubernetes' priority and fairness answers 429, a server that starts or stops 429 or 503, both with `Retry-After` in
whole seconds. Such a request was not carried out, so that it may be sent again, whatever it is. Guarantees: it is not
sent again before the time told; those turned away together do not come back together; one call waits for about
LONGEST_WAIT seconds in all, then its caller is told.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

LONGEST_WAIT = 30.0  # seconds; priority and fairness asks for 1 at first, for up to 32 where it drops many
LEAST_WAIT = 0.1  # seconds, where none is asked for
SPREAD = 1.25  # times the wait, at most, by chance


def told_to_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds until the same request may come again, as an answer says; None where it says nothing of the kind."""
    told = headers.get("Retry-After", "").strip()
    return float(told) if status in (429, 503) and told.isascii() and told.isdigit() else None


def next_wait(told: float | None, waited: float) -> float | None:
    """Seconds to sleep before the next try of a call that has waited for `waited`; None: its caller has to know."""
    if told is None or waited + told > LONGEST_WAIT:
        return None
    return max(told, LEAST_WAIT) * random.uniform(1.0, SPREAD)


def at_least_as_told(usual: float, told: float | None) -> float:
    """Seconds that somebody sleeps who tries again anyway, after `usual` seconds if nobody says otherwise."""
    return max(usual, min(told or 0.0, LONGEST_WAIT))
