"""The agent behind HTTP: trainers of other frameworks send a task and get a rollout and its reward.

Guarantee: only what the model did is ever a reward; whatever the infrastructure prevented is an HTTP error.
"""

from .access import ServerAccess
from .answer_store import AnswerStore
from .app import AgentServer
from .request import InvalidRequest, RequestDefaults, RunRequest, read_request
from .runner import GoldPatchRunner, ModelRunner, RequestRunner
from .serving import serve

__all__ = [
    "AgentServer",
    "AnswerStore",
    "GoldPatchRunner",
    "InvalidRequest",
    "ModelRunner",
    "RequestDefaults",
    "RequestRunner",
    "RunRequest",
    "ServerAccess",
    "read_request",
    "serve",
]
