"""`swerl doctor`: what a cluster lacks for swe-rl, each finding with its remedy.

Guarantees: only objects that it made itself are written (Pods and a NetworkPolicy, all removed at the end); what this
account may not read is a finding `unknown`, never an error.
"""

from .examination import DoctorOptions, examine
from .finding import Finding, FindingStatus

__all__ = ["DoctorOptions", "Finding", "FindingStatus", "examine"]
