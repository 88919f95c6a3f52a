"""A process in a container, over one WebSocket of the Kubernetes exec API.

Guarantees: the handshake has its own timeout and is the only thing ever repeated (nothing ran before it succeeded);
frames are at most 1 MiB; the two ends of a stream differ: the process ended (`ExitStatus`), or the connection was lost.

The client asks for protocol v4 before v5: the API server passes v4 through, but parses v5 and translates it for the
kubelet. v5 only adds the closing of stdin, which a framed protocol does not need.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiohttp
import yaml

from .errors import ApiError, BadRequest, Forbidden, KubeError, NotFound, Unavailable, Unreachable, answer_error
from .paths import resource_path
from .retry_after import pause_after
from .transport import Transport

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
KILLED = 137  # exit code of a process that SIGKILL ended, as where its container ends
FRAME_LIMIT = 1 << 20  # bytes; larger frames reset connections on the way
HANDSHAKE_TIMEOUT = 30.0  # seconds
HANDSHAKE_RETRIES = 4
CLOSE_TIMEOUT = 2.0  # seconds to wait for the other end's farewell: it may be out of reach
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds before a retry, doubled each time, with jitter
UPGRADE_MISSING = "Upgrade request required"  # what a request gets that is good but for the handshake


class HandshakeError(KubeError):
    """The exec stream could not be opened; nothing ran."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds the server asked to wait


@dataclass(frozen=True)
class ExitStatus:
    """How the process ended, as the runtime reports it."""

    code: int | None  # None when the runtime failed before there was a code
    message: str


class Data(NamedTuple):
    """Bytes of one stream: STDOUT or STDERR."""

    stream: int
    payload: bytes


class ExecChannel:
    """One open exec stream. One reader at a time; writers may interleave whole frames."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.status: ExitStatus | None = None

    @property
    def protocol(self) -> str:
        return self._socket.protocol or ""

    async def send(self, data: bytes) -> None:
        """Write to stdin; raises Unreachable when the connection is gone."""
        for start in range(0, len(data), FRAME_LIMIT):
            await self._frame(STDIN, data[start : start + FRAME_LIMIT])

    async def resize(self, columns: int = 80, rows: int = 24) -> None:
        """A terminal-size frame: the one message that resets every idle timer on the way to the container."""
        await self._frame(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    async def receive(self) -> Data | None:
        """The next bytes; None at the end. Then `status` is set if the process ended; else the stream was lost."""
        while True:
            message = await self._socket.receive()
            if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                return None
            data: bytes = message.data if isinstance(message.data, bytes) else message.data.encode()
            if not data:
                continue
            if data[0] in (STDOUT, STDERR):
                if len(data) > 1:
                    return Data(data[0], data[1:])
            elif data[0] == STATUS:
                self.status = parse_status(data[1:])

    async def close(self) -> None:
        """Drop the connection; a process that still runs is not killed by it."""
        await self._socket.close()

    async def _frame(self, channel: int, payload: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes((channel,)) + payload)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise Unreachable(f"exec stream lost while sending: {error}") from error


def parse_status(payload: bytes) -> ExitStatus:
    """The Status object of channel 3 (JSON from v4 on, YAML from some older runtimes)."""
    try:
        status: Any = json.loads(payload)
    except ValueError:
        status = yaml.safe_load(payload.decode(errors="replace"))
    if not isinstance(status, dict):
        return ExitStatus(None, payload.decode(errors="replace"))
    if status.get("status") == "Success":
        return ExitStatus(0, "")
    causes = (status.get("details") or {}).get("causes") or []
    codes = [cause.get("message") for cause in causes if cause.get("reason") == "ExitCode"]
    return ExitStatus(int(codes[0]) if codes else None, str(status.get("message") or ""))


async def open_exec(
    client: Transport,
    namespace: str,
    pod: str,
    command: Sequence[str],
    *,
    container: str | None,
    stdin: bool,
    tty: bool = False,
    retries: int = HANDSHAKE_RETRIES,
) -> ExecChannel:
    """Open the stream, repeating what can pass (5xx, 429, no answer); raises NotFound at once, else HandshakeError."""
    query = [("command", word) for word in command] + [("stdout", "1"), ("tty" if tty else "stderr", "1")]
    query += [("stdin", "1")] if stdin else []
    query += [("container", container)] if container else []
    path = resource_path("v1", "pods", namespace, pod, "exec")
    pause = FIRST_PAUSE
    for failures in range(retries + 1):
        try:
            return ExecChannel(await _connect(client, client.server + path, query))
        except NotFound as error:
            message = f"Pod {namespace}/{pod} or its container does not exist"
            raise NotFound("exec handshake", error.status, error.reason, message) from error
        except ApiError as error:
            explained = await _explained(client, path, query, error)
            raise HandshakeError(f"exec in {namespace}/{pod} refused: {explained}") from explained
        except Unavailable as error:
            if failures == retries:
                message = f"exec in {namespace}/{pod}: no stream after {failures} retries: {error}"
                raise HandshakeError(message, error.retry_after) from error
            await asyncio.sleep(pause_after(error, pause * random.uniform(0.5, 1.0)))
            pause = min(2 * pause, LONGEST_PAUSE)
    raise AssertionError("unreachable")


async def exec_output(
    client: Transport, namespace: str, pod: str, command: Sequence[str], *, container: str, seconds: float
) -> bytes:
    """Standard output of `command` until its stream ends; nothing here shows whether the command itself ended."""
    output = bytearray()
    try:
        async with asyncio.timeout(seconds):
            channel = await open_exec(client, namespace, pod, command, container=container, stdin=False, retries=0)
            try:
                while (data := await channel.receive()) is not None:
                    if data.stream == STDOUT:
                        output += data.payload
            finally:
                await channel.close()
    except TimeoutError as error:
        raise Unreachable(f"exec in {namespace}/{pod}: no end within {seconds:g} s") from error
    return bytes(output)


async def _connect(client: Transport, url: str, query: list[tuple[str, str]]) -> aiohttp.ClientWebSocketResponse:
    """One handshake per protocol until one is accepted; kubelets answer 403 to a protocol they do not know."""
    *preferred, last = client.options.exec_protocols
    for protocol in preferred:
        with suppress(BadRequest, Forbidden, ProtocolRefused):
            return await _handshake(client, url, query, protocol)
    return await _handshake(client, url, query, last)


async def _explained(client: Transport, path: str, query: list[tuple[str, str]], error: ApiError) -> ApiError:
    """`error` with the server's message: aiohttp drops that of a handshake, so the request is made without one."""
    found = await client.refusal(path, query)
    if not isinstance(found, ApiError) or found.status != error.status or UPGRADE_MISSING in found.message:
        return error
    return found


class ProtocolRefused(KubeError):
    """The server switched to a WebSocket without agreeing to the sub-protocol."""


async def _handshake(
    client: Transport, url: str, query: list[tuple[str, str]], protocol: str
) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            socket = await client.http.ws_connect(
                url,
                params=query,
                protocols=(protocol,),
                headers=await client.headers(),
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT),
                max_msg_size=0,
                compress=0,
                autoping=True,
            )
    except aiohttp.WSServerHandshakeError as error:
        raise answer_error("exec handshake", error.status, error.message, error.headers) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"exec handshake: {type(error).__name__}: {error}") from error
    if socket.protocol != protocol:
        await socket.close()
        raise ProtocolRefused(f"asked for {protocol}, got {socket.protocol!r}")
    return socket
