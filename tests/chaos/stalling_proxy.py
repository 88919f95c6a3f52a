"""A proxy in front of the API server that can fall silent, as a balancer does that has lost a connection.

Guarantee: after `swallow` the connections that were open then stay open and carry nothing any more, in either
direction, not even their end; new ones work.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import yaml

T = TypeVar("T")
CHUNK = 1 << 16


@dataclass(eq=False)
class _Connection:
    stalled: bool = False


class StallingProxy:
    """Listens on the loopback interface, from a thread of its own, while the context lasts."""

    def __init__(self, server: str) -> None:
        url = urlsplit(server)
        self._target = (url.hostname, url.port or 443)
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> StallingProxy:
        self._thread.start()
        self._listener = self._wait(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def stall(self) -> int:
        """Let every open connection fall silent; how many did."""

        async def stop_forwarding() -> int:
            active = [each for each in self._connections if not each.stalled]
            for each in active:
                each.stalled = True
            return len(active)

        return self._wait(stop_forwarding())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _end(self) -> None:
        self._listener.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection()
        self._connections.add(connection)
        try:
            with suppress(OSError):
                upstream, server = await asyncio.open_connection(*self._target)
                answers = asyncio.create_task(self._pump(connection, upstream, writer))
                try:
                    await self._pump(connection, reader, server)
                finally:
                    answers.cancel()
                    server.close()
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _pump(self, connection: _Connection, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                if not connection.stalled:
                    target.write(data)
                    await target.drain()
        if not connection.stalled:
            target.close()


def proxied_kubeconfig(proxy: StallingProxy, kubeconfig: str, target: Path) -> str:
    """Path of a copy of `kubeconfig`, at `target`, whose server is the hole."""
    document = yaml.safe_load(Path(kubeconfig).read_text())
    for entry in document["clusters"]:
        entry["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    target.write_text(yaml.safe_dump(document))
    return str(target)


def server_of(kubeconfig: str) -> str:
    """URL of the API server."""
    return str(yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]["server"])
