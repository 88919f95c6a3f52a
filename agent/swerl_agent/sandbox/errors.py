"""What can go wrong with a sandbox.

Guarantee: everything here but `FileError` is a failure of the infrastructure, never of the policy: an episode that
meets one is masked out of its group's statistics. A command that fails, times out or prints garbage is no error but a
`CommandResult`.
"""

from __future__ import annotations

from typing import ClassVar


class SandboxError(Exception):
    """Base; `code` is the stable word for metrics and artifacts."""

    code: ClassVar[str] = "sandbox_error"
    infrastructure: ClassVar[bool] = True


class FileError(SandboxError):
    """A file inside the sandbox cannot be read or written as asked: missing, too large, not a file, disk full."""

    code = "file_error"
    infrastructure = False


class HandshakeFailed(SandboxError):
    """No exec stream to a living Pod could be opened within the time allowed."""

    code = "exec_handshake_failed"


class ExecRefused(HandshakeFailed):
    """The API server does not take the request, and says why: no such container, or a right that the account lacks.

    It needs `create` and `get` on pods/exec, and `get` on pods.
    """

    code = "exec_refused"


class TransferFailed(SandboxError):
    """A file did not arrive as it was sent, several times."""

    code = "transfer_failed"


class NotIsolated(SandboxError):
    """Something the sandbox must not reach answered it, or nothing in the image could check that."""

    code = "not_isolated"


class ScrubFailed(SandboxError):
    """Git history that the agent must not see could not be removed."""

    code = "scrub_failed"


class NotReady(SandboxError):
    """The Pod did not become ready in time; the message says what it waits for."""

    code = "not_ready"


class CapacityExhausted(NotReady):
    """No room in time: admission, a queue or the scheduler kept the Pod waiting."""

    code = "capacity_exhausted"


class ImagePullFailed(NotReady):
    """The image cannot be had."""

    code = "image_pull_failed"


class SandboxLost(SandboxError):
    """The sandbox and what was done in it are gone; never repaired, the episode ends."""

    code = "sandbox_lost"


class PodGone(SandboxLost):
    """The Pod is deleted, being deleted, or its container ended."""

    code = "pod_gone"


class PodReplaced(SandboxLost):
    """Another Pod bears the name, or the container was started again: the state is blank."""

    code = "pod_replaced"


class Evicted(SandboxLost):
    """The node took the Pod away: pressure, or a limit such as ephemeral storage."""

    code = "pod_evicted"


class OOMKilled(SandboxLost):
    """The container as a whole was killed for its memory."""

    code = "oom_killed"


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
    """What ran cannot be told: the record of a command vanished together with the stream, or none can be written."""

    code = "state_lost"


class Unresponsive(SandboxLost):
    """The Pod lives but the session gives no answer, not even after its command was killed."""

    code = "unresponsive"
