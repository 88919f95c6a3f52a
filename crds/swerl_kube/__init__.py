"""The Kubernetes client of operator and agent: asyncio, JSON in and out, typed errors."""

from .client import KubeClient
from .cluster_config import ClusterConfig
from .config import KubeContext
from .credentials import Credentials
from .errors import (
    NOT_ADMITTED,
    ApiError,
    BadRequest,
    ConfigError,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
    WebhookFailed,
)
from .exec import Data, ExecChannel, ExitStatus, HandshakeError
from .paths import resource_path
from .refusals import newest_event, pod_refusal
from .retry_after import parse_retry_after, pause_after
from .transport import ClientOptions, Json
from .watch import Event
from .write_retry import WRITE_RETRY, WriteRetry, retry_write

__all__ = [
    "NOT_ADMITTED",
    "WRITE_RETRY",
    "ApiError",
    "BadRequest",
    "ClientOptions",
    "ClusterConfig",
    "ConfigError",
    "Conflict",
    "Credentials",
    "Data",
    "Event",
    "ExecChannel",
    "ExitStatus",
    "Expired",
    "Forbidden",
    "HandshakeError",
    "Invalid",
    "Json",
    "KubeClient",
    "KubeContext",
    "KubeError",
    "NotFound",
    "ServerError",
    "Throttled",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WebhookFailed",
    "WriteRetry",
    "newest_event",
    "parse_retry_after",
    "pause_after",
    "pod_refusal",
    "resource_path",
    "retry_write",
]
