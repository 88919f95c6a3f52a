"""Evaluation: many attempts at many tasks, whatever happens to the process that runs them."""

from .agents import AGENTS, BUILTIN, MINI_SWE_AGENT, opened_agent, opened_chat_agent
from .artifacts import bare_address, made_with
from .attempts import Attempt, Attempts, opened_attempts
from .evaluation import Evaluation, EvaluationSettings, EvaluationStuck, check_prompts
from .folder import AGREE, Conclusions, check_agreement, conclude, keep_settings, read_settings
from .records import Record, RecordError, Records
from .redo import Redo
from .summary import merge, predictions, summarise

__all__ = [
    "AGENTS",
    "AGREE",
    "BUILTIN",
    "MINI_SWE_AGENT",
    "Attempt",
    "Attempts",
    "Conclusions",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationStuck",
    "Record",
    "RecordError",
    "Records",
    "Redo",
    "bare_address",
    "check_agreement",
    "check_prompts",
    "conclude",
    "keep_settings",
    "made_with",
    "merge",
    "opened_agent",
    "opened_attempts",
    "opened_chat_agent",
    "predictions",
    "read_settings",
    "summarise",
]
