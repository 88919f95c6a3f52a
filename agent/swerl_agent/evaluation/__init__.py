"""Evaluation: many attempts at many tasks, whatever happens to the process that runs them."""

from .agents import AGENTS, BUILTIN, MINI_SWE_AGENT, opened_agent
from .attempts import Attempt, Attempts
from .evaluation import Evaluation, EvaluationSettings, EvaluationStuck
from .records import Record, RecordError, Records
from .summary import merge, predictions, summarise, write

__all__ = [
    "AGENTS",
    "BUILTIN",
    "MINI_SWE_AGENT",
    "Attempt",
    "Attempts",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationStuck",
    "Record",
    "RecordError",
    "Records",
    "merge",
    "opened_agent",
    "predictions",
    "summarise",
    "write",
]
