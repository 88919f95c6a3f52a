"""Evaluation: many samples of many tasks, resumed whenever the process is killed."""

from .agents import AGENTS, BUILTIN, MINI_SWE_AGENT, open_agent, open_chat_agent
from .artifacts import sample_metadata, url_without_secrets
from .evaluation import Evaluation, EvaluationAborted, check_records
from .folder import MUST_MATCH, SummaryWriter, check_settings, read_settings, write_settings, write_summary
from .records import ResultsError, SampleRecord, SampleRecords
from .redo import Redo
from .samples import SampleRunner, open_sample_runner
from .summary import merge, predictions, summarise

__all__ = [
    "AGENTS",
    "BUILTIN",
    "MINI_SWE_AGENT",
    "MUST_MATCH",
    "Evaluation",
    "EvaluationAborted",
    "Redo",
    "ResultsError",
    "SampleRecord",
    "SampleRecords",
    "SampleRunner",
    "SummaryWriter",
    "check_records",
    "check_settings",
    "merge",
    "open_agent",
    "open_chat_agent",
    "open_sample_runner",
    "predictions",
    "read_settings",
    "sample_metadata",
    "summarise",
    "url_without_secrets",
    "write_settings",
    "write_summary",
]
