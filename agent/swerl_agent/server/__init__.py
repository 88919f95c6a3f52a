"""The agent behind HTTP: trainers of other frameworks send a task and get a rollout and its reward.

Guarantee: only what the model did is ever a reward; whatever the infrastructure prevented is an HTTP error.
"""

from .app import AgentServer
from .request import BadRequest, Defaults, RunRequest, read_request
from .results import Results
from .runner import AttemptRunner, GoldenRunner, Runner
from .serving import serve

__all__ = [
    "AgentServer",
    "AttemptRunner",
    "BadRequest",
    "Defaults",
    "GoldenRunner",
    "Results",
    "RunRequest",
    "Runner",
    "read_request",
    "serve",
]
