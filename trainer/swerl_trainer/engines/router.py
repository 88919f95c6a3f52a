"""The smg router process: one address for all engines, one engine per episode.

Guarantees: with `consistent_hashing` every request that carries the same routing key goes to the same living engine;
an engine is in the router exactly while it serves the current weights; an engine whose removal failed is removed by
`finish_removals`; a dead router is restarted at its address, with its engines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import aiohttp
from swerl_api import RouterSpec
from swerl_api.addresses import url_host
from swerl_kube.log_relay import relay_command
from swerl_kube.logs import LogSettings
from swerl_trainer.engines import router_process
from swerl_trainer.engines.api_key import api_key
from swerl_trainer.engines.errors import EngineCallError, EngineStartError
from swerl_trainer.engines.server import free_port

logger = logging.getLogger(__name__)

ROUTING_HEADER = "X-SMG-Routing-Key"
START_TIMEOUT = 60.0  # seconds until the router responds
JOIN_TIMEOUT = 60.0  # seconds until the router has seen a new engine healthy
POLL = 0.1  # seconds between two requests
RELAY_TIMEOUT = 5.0  # seconds for the last lines of a router that has ended
LOG_TAIL = 2000  # characters of the log quoted in an error


@dataclass(frozen=True)
class RouterSettings:
    """How one router runs."""

    host: str
    port: int
    metrics_port: int
    spec: RouterSpec = field(default_factory=RouterSpec)  # an argument with the value "" is a bare flag
    log: LogSettings = field(default_factory=LogSettings)
    api_key: str | None = field(default=None, repr=False)  # of its engines; its process takes it from the environment


def router_command(settings: RouterSettings) -> list[str]:
    """The command line of the router."""
    chosen = {
        "host": settings.host,
        "port": str(settings.port),
        "prometheus-port": str(settings.metrics_port),
        "policy": settings.spec.policy,
        "worker-startup-check-interval": "1",
        "health-check-interval-secs": "5",
        "health-check-endpoint": "/health",  # not /ready, which fails while an engine's weights are updated
        "request-timeout-secs": "3600",
        "max-concurrent-requests": "0",
        "shutdown-grace-period-secs": "1",
        "disable-load-monitoring": "",
        "disable-tokenizer-autoload": "",
        "log-level": "warn",
        **({"log-json": ""} if settings.log.format == "json" else {}),
    } | settings.spec.args
    flags = [part for name, value in chosen.items() for part in ([f"--{name}", value] if value else [f"--{name}"])]
    return [sys.executable, "-m", router_process.MODULE, *flags]


class Router:
    """A router and its list of engines."""

    def __init__(self, settings: RouterSettings, http: aiohttp.ClientSession, log: Path) -> None:
        self.url = f"http://{url_host(settings.host)}:{settings.port}"
        self._settings = settings
        self._http = http
        self._log = log
        self._ids: dict[str, str] = {}
        self._leaving: set[str] = set()  # engines that the router may still use although they were to be removed
        self._process: subprocess.Popen[bytes] | None = None
        self._relay: subprocess.Popen[bytes] | None = None  # of the process's lines

    @classmethod
    def on(
        cls,
        host: str,
        http: aiohttp.ClientSession,
        log: Path,
        *,
        port: int | None = None,
        spec: RouterSpec | None = None,
        log_settings: LogSettings | None = None,
    ) -> Router:
        """A router on `port` of `host`, by default a free one; it runs after `start`. `http` sends the API key."""
        settings = RouterSettings(
            host,
            port or free_port(host),
            free_port(host),
            spec=spec or RouterSpec(),
            log=log_settings or LogSettings(),
            api_key=api_key(),
        )
        return cls(settings, http, log)

    async def start(self) -> None:
        """Start the process, with the engines it had. Raises EngineStartError when it does not come up."""
        self._process = await asyncio.to_thread(self._launch)
        await self._answering()
        for engine in self._leaving:  # which this process never had
            self._ids.pop(engine, None)
        self._leaving.clear()
        for engine in list(self._ids):  # without waiting: one of them may have died with the router
            await self._register(engine)

    async def add(self, engine: str) -> None:
        """Route to the engine at `engine` from now on; returns when the router has seen it healthy."""
        self._leaving.discard(engine)
        if engine not in self._ids:
            await self._register(engine)
        deadline = time.monotonic() + JOIN_TIMEOUT
        while engine not in await self.healthy():
            if time.monotonic() > deadline:
                raise EngineCallError(f"router {self.url}: engine {engine} not healthy after {JOIN_TIMEOUT:.0f} s")
            await asyncio.sleep(POLL)

    async def remove(self, engine: str) -> None:
        """Stop routing requests to `engine`; no-op when it is unknown. `finish_removals` repeats one that fails."""
        if engine not in self._ids:
            return
        self._leaving.add(engine)
        async with self._http.delete(f"{self.url}/workers/{self._ids[engine]}") as response:
            if response.status not in (200, 202, 404):
                raise EngineCallError(f"router {self.url} kept engine {engine}: {await response.text()}")
        self._ids.pop(engine, None)
        self._leaving.discard(engine)

    async def finish_removals(self) -> None:
        """Remove the engines whose removal failed; those that the router still keeps stay for the next call."""
        results = await asyncio.gather(*(self.remove(engine) for engine in list(self._leaving)), return_exceptions=True)
        for result in results:
            if isinstance(result, (EngineCallError, aiohttp.ClientError, TimeoutError)):
                logger.warning("an engine is still in the router %s; retrying: %s", self.url, result)
            elif isinstance(result, BaseException):
                raise result

    async def healthy(self) -> set[str]:
        """Addresses of the engines requests may go to now."""
        async with self._http.get(f"{self.url}/workers") as response:
            workers = (await response.json())["workers"]
        return {str(w["url"]) for w in workers if w.get("is_healthy", w.get("status") == "ready")}

    @property
    def alive(self) -> bool:
        """Whether the router's process runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self, grace: float = 2.0) -> None:
        """End the router; no-op when it does not run."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._relay_ended()

    def _relay_ended(self) -> None:
        """Wait until the relay has written the last lines of a router that has ended."""
        relay, self._relay = self._relay, None
        if relay is not None:
            with suppress(subprocess.TimeoutExpired):
                relay.wait(RELAY_TIMEOUT)

    async def _register(self, engine: str) -> None:
        key = {"api_key": self._settings.api_key} if self._settings.api_key else {}
        async with self._http.post(f"{self.url}/workers", json={"url": engine, **key}) as response:
            if response.status not in (200, 201, 202):
                raise EngineCallError(f"router {self.url} refused engine {engine}: {await response.text()}")
            self._ids[engine] = str((await response.json()).get("worker_id", ""))

    def _launch(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as sink, self._relayed(sink) as output:
            return subprocess.Popen(
                router_command(self._settings),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _relayed(self, sink: IO[bytes]) -> IO[bytes]:
        """Where the router writes: `sink`, or the input of a relay to it, which ends after the router."""
        self._relay_ended()  # that of an earlier process
        if self._settings.log.format != "json":
            return sink
        command = relay_command(self._settings.log)
        self._relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sink, start_new_session=True)
        assert self._relay.stdin is not None
        return self._relay.stdin

    async def _answering(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and self.alive:
            try:
                async with self._http.get(f"{self.url}/liveness") as response:
                    if response.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(POLL)
        if not self.alive:
            await asyncio.to_thread(self._relay_ended)
        tail = self._log.read_text(errors="replace")[-LOG_TAIL:]
        raise EngineStartError(f"router {self.url} did not start; end of {self._log}:\n{tail}")
