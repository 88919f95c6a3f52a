"""Grading: one Kubernetes Job per patch, its verdict made outside it.

Guarantees: the Pod that runs a patch decides nothing; it reports a log, and the trusted side grades that log with the
`swebench` library. An infrastructure failure is retried on a fresh Job and is never a verdict on the patch.
"""

from .cache import VERDICTS
from .grader import Grader, GradingError
from .record import record_content, record_path
from .verdict import NO_PATCH, Verdict, VerdictStatus

__all__ = [
    "NO_PATCH",
    "VERDICTS",
    "Grader",
    "GradingError",
    "Verdict",
    "VerdictStatus",
    "record_content",
    "record_path",
]
