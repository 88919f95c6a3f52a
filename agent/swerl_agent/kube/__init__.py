"""A small asyncio client of the Kubernetes API: JSON in, JSON out, one connector, typed errors."""

from .client import KubeClient
from .config import ClusterConfig, Token
from .errors import (
    ApiError,
    BadRequest,
    ConfigError,
    Conflict,
    Expired,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
    Unreachable,
)
from .exec import Data, ExecChannel, ExitStatus, HandshakeError
from .watch import Event

__all__ = [
    "ApiError",
    "BadRequest",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "Data",
    "Event",
    "ExecChannel",
    "ExitStatus",
    "Expired",
    "Forbidden",
    "HandshakeError",
    "KubeClient",
    "KubeError",
    "NotFound",
    "ServerError",
    "Throttled",
    "Token",
    "Unauthorized",
    "Unreachable",
]
