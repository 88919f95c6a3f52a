"""Searches trajectories for commands that honest work does not need: later history, downloads, the grader's own files.

Guarantees: only what was executed is looked at, not what was talked about; a finding names its rule, its step and the
words that gave it away; the commands of a trajectory that cannot be read are an error, never an empty list.
"""

from .rules import RULES, AuditFinding, AuditRule, findings
from .trajectory import AuditedTrajectory, TrajectoryError, executed, read_trajectories

__all__ = [
    "RULES",
    "AuditFinding",
    "AuditRule",
    "AuditedTrajectory",
    "TrajectoryError",
    "executed",
    "findings",
    "read_trajectories",
]
