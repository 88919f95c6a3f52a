"""A forward proxy that works: whole URLs over HTTP, and CONNECT tunnels; a test maps host names to addresses."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class ForwardProxy:
    """`places` are ports of this machine by host; `seen` are the first lines of what it was asked; `login` it wants."""

    def __init__(self, ports: Mapping[str, int], *, login: str | None = None) -> None:
        self._ports, self._login = ports, login
        self.request_lines: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *headers = head.rstrip().split("\r\n")
        self.request_lines.append(first)
        method, target, version = first.split(" ")
        credentials = [
            line.partition(":")[2].strip() for line in headers if line.lower().startswith("proxy-authorization:")
        ]
        if self._login and credentials != [f"Basic {base64.b64encode(self._login.encode()).decode()}"]:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host = target.rpartition(":")[0] if method == "CONNECT" else str(urlsplit(target).hostname)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._ports[host])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = urlsplit(target)._replace(scheme="", netloc="").geturl()
            kept = [line for line in headers if not line.lower().startswith(("proxy-", "connection:"))]
            server_writer.write(
                "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""]).encode()
            )
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


@asynccontextmanager
async def proxying(proxy: ForwardProxy) -> AsyncIterator[ForwardProxy]:
    """`proxy` with its `url`, listening."""
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
