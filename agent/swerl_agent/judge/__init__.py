"""The judge: a second model that scores the steps of an episode while it runs.

Guarantees: scores are keyed by step. A judge that is slow, down or answers nonsense leaves steps unscored; it never
delays or ends an episode. All episodes of a process share one limit on concurrent votes.
"""

from .judge import Judge, Scoring, StepScore
from .votes import aggregate, parse_vote

__all__ = ["Judge", "Scoring", "StepScore", "aggregate", "parse_vote"]
