"""How the processes of an evaluation's engines log."""

from __future__ import annotations

from swerl_api import EvaluationFile
from swerl_kube.logs import LogSettings


def log_of(file: EvaluationFile) -> LogSettings:
    """The format that the evaluation chooses, with its name in each line."""
    return LogSettings(file.spec.log_format, {"namespace": file.namespace, "evaluation": file.name})
