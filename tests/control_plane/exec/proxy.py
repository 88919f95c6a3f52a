"""TCP proxies before the API server, with the faults of real ones."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


class Proxy:
    """Forwards connections of 127.0.0.1 to the API server of a kubeconfig.

    `idle`: seconds without a byte after which a connection is dropped.
    """

    def __init__(self, kubeconfig: str, *, idle: float | None = None) -> None:
        self._config = yaml.safe_load(Path(kubeconfig).read_text())
        self._idle = idle
        self.connections = 0
        self.dropped = 0
        self._swallowed: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stall(self) -> None:
        """Stop forwarding on all open connections without closing them."""
        self._swallowed.update(range(1, self.connections + 1))

    def write_kubeconfig(self, path: Path, user: dict[str, Any] | None = None) -> str:
        """A kubeconfig that leads through this proxy; `user` replaces the credentials."""
        config = dict(self._config)
        cluster = config["clusters"][0]["cluster"]
        port = self._server.sockets[0].getsockname()[1]
        changed = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        config["clusters"] = [{"name": config["clusters"][0]["name"], "cluster": cluster | changed}]
        if user is not None:
            config["users"] = [{"name": config["users"][0]["name"], "user": user}]
        path.write_text(yaml.safe_dump(config))
        return str(path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server = urlsplit(self._config["clusters"][0]["cluster"]["server"])
        server_reader, server_writer = await asyncio.open_connection(server.hostname, server.port)
        last = [asyncio.get_running_loop().time()]
        pumps = [
            asyncio.create_task(self._pump(number, reader, server_writer, last)),
            asyncio.create_task(self._pump(number, server_reader, writer, last)),
        ]
        try:
            await self._until_done(pumps, last)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in (writer, server_writer):
                end.close()
            self._tasks.discard(task)

    async def _until_done(self, pumps: list[asyncio.Task[None]], last: list[float]) -> None:
        while True:
            done, _ = await asyncio.wait(pumps, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if self._idle is not None and asyncio.get_running_loop().time() - last[0] > self._idle:
                self.dropped += 1
                return

    async def _pump(
        self, number: int, source: asyncio.StreamReader, target: asyncio.StreamWriter, last: list[float]
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                last[0] = asyncio.get_running_loop().time()
                if number in self._swallowed:
                    continue
                target.write(data)
                await target.drain()
