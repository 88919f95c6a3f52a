"""Sandboxes: groups of Pods, and in each Pod a session in which commands run exactly once."""

from .claim import Claim, ClaimOptions, Sandbox
from .declaration import let_go
from .errors import (
    CapacityExhausted,
    Evicted,
    ExecRefused,
    FileError,
    HandshakeFailed,
    ImagePullFailed,
    LeaseExpired,
    LifetimeExceeded,
    NodeLost,
    NotIsolated,
    NotReady,
    OOMKilled,
    PodGone,
    PodReplaced,
    SandboxError,
    SandboxLost,
    ScrubFailed,
    StateLost,
    TransferFailed,
    Unresponsive,
)
from .git import Scrub, scrub_git
from .group import SandboxGroup
from .isolation import check_isolation
from .lease import LeaseHeld, LeaseLost
from .pod import PodConnector
from .result import CommandResult
from .session import Session
from .watch import SandboxWatch

__all__ = [
    "CapacityExhausted",
    "Claim",
    "ClaimOptions",
    "CommandResult",
    "Evicted",
    "ExecRefused",
    "FileError",
    "HandshakeFailed",
    "ImagePullFailed",
    "LeaseExpired",
    "LeaseHeld",
    "LeaseLost",
    "LifetimeExceeded",
    "NodeLost",
    "NotIsolated",
    "NotReady",
    "OOMKilled",
    "PodConnector",
    "PodGone",
    "PodReplaced",
    "Sandbox",
    "SandboxError",
    "SandboxGroup",
    "SandboxLost",
    "SandboxWatch",
    "Scrub",
    "ScrubFailed",
    "Session",
    "StateLost",
    "TransferFailed",
    "Unresponsive",
    "check_isolation",
    "let_go",
    "scrub_git",
]
