"""A command in a sandbox of one's own, whose outputs are passed on as they arrive.

Unlike a session's, such a command is not repeated or continued: a lost stream ends it. It is for one command in a
sandbox that is deleted afterwards, which also kills a command that reached its timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from swerl_kube import KubeClient
from swerl_kube.exec import KILLED

from .errors import HandshakeFailed
from .pod import PodConnector, restarts_of

# $1: the command; standard input is empty, as in a session.
SCRIPT = """\
exec </dev/null
command -v bash >/dev/null && exec bash -lc "$1"
exec sh -lc "$1"
"""
LOSS_SECONDS = 3.0  # until the Pod's status says that its container ended, with every process in it
Write = Callable[[int, bytes], None]  # called in a thread with 1 (standard output) or 2 (standard error), and bytes


async def run_streamed(
    client: KubeClient, namespace: str, pod: str, command: str, *, timeout: float, write: Write
) -> int:
    """Run `command` in the container's working directory as `bash -lc` does (`sh -lc` without bash), at most `timeout`
    seconds; its exit code.

    Raises TimeoutError after `timeout`, while the command may still run; SandboxLost when the sandbox is lost,
    HandshakeFailed when the connection is. Errors of `write` pass through.
    """
    found = await client.get("v1", "pods", namespace, pod)
    connector = PodConnector(client, namespace, pod, uid=found["metadata"]["uid"], restarts=restarts_of(found))
    channel = await connector.open(("sh", "-c", SCRIPT, "sh", command))
    try:
        async with asyncio.timeout(timeout):
            while (data := await channel.receive()) is not None:
                await asyncio.to_thread(write, data.stream, data.payload)
    finally:
        await channel.close()
    if channel.status is None or channel.status.code is None:
        await connector.check()
        raise HandshakeFailed(f"the connection to {namespace}/{pod} was lost while the command ran")
    if channel.status.code == KILLED:
        await asyncio.sleep(LOSS_SECONDS)
        await connector.check()
    return channel.status.code
