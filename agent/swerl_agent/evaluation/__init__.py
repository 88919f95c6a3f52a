"""Evaluation: many attempts at many tasks, whatever happens to the process that runs them."""

from .agents import AGENTS, BUILTIN, MINI_SWE_AGENT, open_agent, open_chat_agent
from .artifacts import bare_address, made_with
from .evaluation import Evaluation, EvaluationSettings, EvaluationStuck, check_prompts
from .folder import AGREE, Conclusions, check_agreement, conclude, keep_settings, read_settings
from .records import Record, RecordError, Records
from .redo import Redo
from .samples import SampleRunner, open_sample_runner
from .summary import merge, predictions, summarise

__all__ = [
    "AGENTS",
    "AGREE",
    "BUILTIN",
    "MINI_SWE_AGENT",
    "Conclusions",
    "Evaluation",
    "EvaluationSettings",
    "EvaluationStuck",
    "Record",
    "RecordError",
    "Records",
    "Redo",
    "SampleRunner",
    "bare_address",
    "check_agreement",
    "check_prompts",
    "conclude",
    "keep_settings",
    "made_with",
    "merge",
    "open_agent",
    "open_chat_agent",
    "open_sample_runner",
    "predictions",
    "read_settings",
    "summarise",
]
