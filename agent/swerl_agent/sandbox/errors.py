"""Errors of a sandbox.

Guarantee: every error is a failure of the infrastructure, unless `by_commands` is set and the policy's commands ran in
the sandbox. An episode that the infrastructure ended is masked out of its group's statistics. A command
that fails, times out or prints garbage raises no error; its outcome is a `CommandResult`.
"""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """Base class; `code` is the stable identifier in metrics and artifacts."""

    code: ClassVar[str] = "sandbox_error"
    by_commands: ClassVar[bool] = False
    """Only commands in the sandbox cause it: memory, disk, its own processes and files."""


class FileError(SandboxError):
    """A file in the sandbox cannot be read or written: missing, too large, not a file, disk full."""

    code = "file_error"
    by_commands = True


class FileMissing(FileError):
    """The path does not exist."""

    code = "file_missing"


class PathIsDirectory(FileError):
    """The path is a directory."""

    code = "path_is_directory"


class NotAFile(FileError):
    """The path is a pipe, a socket or a device."""

    code = "not_a_file"


class AccessDenied(FileError):
    """The image's user may not read or write the path, or its file system is read-only."""

    code = "access_denied"


class FileTooLarge(FileError):
    """The file exceeds the limit, which is the same for reads and writes."""

    code = "file_too_large"


class HandshakeFailed(SandboxError):
    """No exec stream to a running Pod could be opened in time."""

    code = "exec_handshake_failed"


class ExecRefused(HandshakeFailed):
    """The API server refuses the exec request: no such container, or a missing permission.

    The account needs `create` and `get` on pods/exec, and `get` on pods.
    """

    code = "exec_refused"


class TransferFailed(SandboxError):
    """A file arrived damaged several times."""

    code = "transfer_failed"


class NotIsolated(SandboxError):
    """The sandbox reached an address that must be out of reach, or the image has no program to check that."""

    code = "not_isolated"


class ScrubFailed(SandboxError):
    """Git history after the base commit could not be removed."""

    code = "scrub_failed"


class NotReady(SandboxError):
    """The Pod did not become ready in time; the message names what it waits for."""

    code = "not_ready"


class CapacityExhausted(NotReady):
    """No capacity in time: the Pod waits for admission, a queue or the scheduler."""

    code = "capacity_exhausted"


class ImagePullFailed(NotReady):
    """The image cannot be pulled."""

    code = "image_pull_failed"


class SandboxLost(SandboxError):
    """The sandbox and its state are lost; there is no repair, the episode ends."""

    code = "sandbox_lost"


class ClaimEnded(SandboxLost):
    """The sandbox was used after its claim, or its session, has ended."""

    code = "claim_ended"


class PodGone(SandboxLost):
    """The Pod was deleted or is being deleted, or its container ended."""

    code = "pod_gone"


class PodRejected(SandboxLost):
    """The API server or the node's kubelet refused the Pod."""

    code = "pod_rejected"


class ContainerExited(PodGone):
    """Process 1 of the container ended although nothing deleted the Pod."""

    code = "container_exited"
    by_commands = True


class ForeignArchitecture(SandboxLost):
    """The image's programs are for another architecture than the node (exec format error)."""

    code = "foreign_architecture"


class PodReplaced(SandboxLost):
    """Another Pod has the name now, or the container was restarted: the state is lost."""

    code = "pod_replaced"


class Evicted(SandboxLost):
    """The node evicted the Pod for lack of resources, or it was drained or preempted."""

    code = "pod_evicted"


class StorageExceeded(Evicted):
    """The node evicted the Pod because its files exceeded its limit of ephemeral storage."""

    code = "storage_exceeded"
    by_commands = True


class OOMKilled(SandboxLost):
    """The container was killed because it exceeded its memory limit."""

    code = "oom_killed"
    by_commands = True


class NodeLost(SandboxLost):
    """The node is gone or shut down."""

    code = "node_lost"


class LifetimeExceeded(SandboxLost):
    """The Pod reached its lifetimeSeconds."""

    code = "lifetime_exceeded"


class LeaseExpired(SandboxLost):
    """The operator removed the group because its driver's Lease was not renewed."""

    code = "lease_expired"


class StateLost(SandboxLost):
    """It is unknown whether a command ran: its record was lost with the stream, or cannot be written."""

    code = "state_lost"
    by_commands = True


class Unresponsive(SandboxLost):
    """The Pod runs, but the session ignores the kill of its command, or the shell that once worked starts no more."""

    code = "unresponsive"
    by_commands = True
