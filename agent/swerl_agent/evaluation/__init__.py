"""Evaluation: many attempts at many tasks, whatever happens to the process that runs them."""

from .attempts import Attempt, Attempts, Model
from .evaluation import Evaluation, EvaluationSettings, EvaluationStuck
from .records import Record, RecordError, Records
from .summary import merge, predictions, summarise, write

__all__ = [
    "Attempt",
    "Attempts",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationStuck",
    "Model",
    "Record",
    "RecordError",
    "Records",
    "merge",
    "predictions",
    "summarise",
    "write",
]
