"""Sandboxes: groups of Pods. In each Pod a session runs commands exactly once."""

from .by_node import NodeCounts
from .claim import Claim, ClaimOptions, Sandbox
from .declaration import delete_best_effort
from .errors import (
    AccessDenied,
    CapacityExhausted,
    ClaimEnded,
    ContainerExited,
    Evicted,
    ExecRefused,
    FileError,
    FileMissing,
    FileTooLarge,
    ForeignArchitecture,
    HandshakeFailed,
    ImagePullFailed,
    LeaseExpired,
    LifetimeExceeded,
    NodeLost,
    NotAFile,
    NotIsolated,
    NotReady,
    OOMKilled,
    PathIsDirectory,
    PodGone,
    PodRejected,
    PodReplaced,
    SandboxError,
    SandboxLost,
    ScrubFailed,
    StateLost,
    StorageExceeded,
    TransferFailed,
    Unresponsive,
)
from .group import SandboxGroup
from .history import ScrubReport, scrub_history
from .isolation import check_isolation
from .lease import LeaseHeld, LeaseLost
from .pod import PodConnector
from .result import CommandResult
from .session import Session
from .settings import SessionSettings
from .watch import SandboxWatch

__all__ = [
    "AccessDenied",
    "CapacityExhausted",
    "Claim",
    "ClaimEnded",
    "ClaimOptions",
    "CommandResult",
    "ContainerExited",
    "Evicted",
    "ExecRefused",
    "FileError",
    "FileMissing",
    "FileTooLarge",
    "ForeignArchitecture",
    "HandshakeFailed",
    "ImagePullFailed",
    "LeaseExpired",
    "LeaseHeld",
    "LeaseLost",
    "LifetimeExceeded",
    "NodeCounts",
    "NodeLost",
    "NotAFile",
    "NotIsolated",
    "NotReady",
    "OOMKilled",
    "PathIsDirectory",
    "PodConnector",
    "PodGone",
    "PodRejected",
    "PodReplaced",
    "Sandbox",
    "SandboxError",
    "SandboxGroup",
    "SandboxLost",
    "SandboxWatch",
    "ScrubFailed",
    "ScrubReport",
    "Session",
    "SessionSettings",
    "StateLost",
    "StorageExceeded",
    "TransferFailed",
    "Unresponsive",
    "check_isolation",
    "delete_best_effort",
    "scrub_history",
]
