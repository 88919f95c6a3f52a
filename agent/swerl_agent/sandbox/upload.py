"""Uploads of bytes into the session's folder in the Pod, over its stream.

Guarantees: no message exceeds 1 MiB; the Pod confirms every chunk; with `check` it also counts the bytes of the file.
"""

from __future__ import annotations

import asyncio

from . import wire
from .errors import FileError
from .settings import SessionSettings
from .stream import SessionStream, StreamLost


async def upload(stream: SessionStream, name: str, data: bytes, *, check: bool, settings: SessionSettings) -> None:
    """Append `data` to the file `name`; raises StreamLost without a confirmation, FileError when the disk is full."""
    timeout = settings.chunk_timeout
    for start in range(0, max(1, len(data)), settings.chunk_bytes):
        chunk = data[start : start + settings.chunk_bytes]
        reply = await _exchange(stream, wire.put(name, len(chunk)), timeout, chunk)
        if reply == wire.Reply("full", name):
            raise FileError(f"no room for {len(data)} bytes in the sandbox")
        if reply != wire.Reply("put", name):
            raise StreamLost(f"upload of {name} not confirmed: {reply}")
    if not check:
        return
    reply = await _exchange(stream, wire.count(name), timeout)
    if reply != wire.Reply("count", f"{name} {len(data)}"):
        raise StreamLost(f"upload of {len(data)} bytes to {name} is incomplete: {reply}")


async def _exchange(stream: SessionStream, request: bytes, timeout: float, chunk: bytes = b"") -> object:
    """The loop's next reply after `request` and `chunk`."""
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        async with asyncio.timeout_at(deadline):  # a stalled connection must not block the caller
            await stream.send(request)
            if chunk:
                await stream.send(chunk)
    except TimeoutError:
        raise StreamLost(f"{len(chunk)} bytes could not be sent in {timeout:.0f} s") from None
    while (reply := await stream.receive(wire.OutputLimit(0, 0), deadline)) == wire.Reply("pong", ""):
        pass  # to a ping of an earlier command
    return reply
