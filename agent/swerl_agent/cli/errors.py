"""Exit codes and messages of the errors that end a command."""

from __future__ import annotations

from swerl_kube import ConfigError, KubeError

from swerl_agent.audit import TrajectoryError
from swerl_agent.episode import EndpointError, EngineError, PromptError, TokenizerError
from swerl_agent.evaluation import EvaluationAborted, ResultsError
from swerl_agent.grading import GradingError
from swerl_agent.grading.predictions import PredictionError
from swerl_agent.jobs import JobCommandError
from swerl_agent.registry import CredentialError
from swerl_agent.sandbox import SandboxError
from swerl_agent.tasks import TaskError

USAGE_ERRORS = (
    ConfigError,
    CredentialError,
    EndpointError,
    JobCommandError,
    PredictionError,
    PromptError,
    ResultsError,
    TaskError,
    TokenizerError,
    TrajectoryError,
)
INFRASTRUCTURE_ERRORS = (EngineError, EvaluationAborted, GradingError, KubeError, SandboxError)


def exit_code(error: Exception) -> int | None:
    """2 for wrong input, 3 for a failure of infrastructure, None for a fault of the program."""
    if isinstance(error, USAGE_ERRORS):
        return 2
    return 3 if isinstance(error, (*INFRASTRUCTURE_ERRORS, OSError)) else None


def message(error: Exception, kept: str) -> str:
    """What ended the command, without its traceback."""
    if isinstance(error, USAGE_ERRORS):
        return str(error)
    if isinstance(error, INFRASTRUCTURE_ERRORS):
        return f"{type(error).__name__}: {error}"
    return f"{error}; {kept}" if kept else str(error)
