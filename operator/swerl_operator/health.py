"""Liveness, readiness and metrics over HTTP.

Guarantees: /livez fails when a leader has stopped renewing its Lease (the process is stuck: restart it); /readyz
succeeds on a standby and on a leader whose handlers run; /metrics has a port of its own, so that a NetworkPolicy can
allow it separately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from .leader import Leader
from .metrics import Metrics


class Health:
    """The handlers of the probes."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self.serving = asyncio.Event()  # set by kopf when its handlers run

    async def livez(self, request: web.Request) -> web.Response:
        """200 unless this process leads and its Lease has expired."""
        since_renewal = time.monotonic() - self._leader.renewed
        if self._leader.renewed and since_renewal > self._leader.config.lease_duration:
            return web.Response(status=500, text=f"leader Lease not renewed for {since_renewal:.0f} s\n")
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """200 for a standby and for a leader whose handlers run; 503 for a leader that is still starting."""
        if self._leader.renewed and not self.serving.is_set():
            return web.Response(status=503, text="starting\n")
        return web.Response(text="leading\n" if self._leader.renewed else "standby\n")


@asynccontextmanager
async def serve_health(health: Health, port: int) -> AsyncIterator[None]:
    """Serve /livez and /readyz on every address."""
    app = web.Application()
    app.router.add_get("/livez", health.livez)
    app.router.add_get("/readyz", health.readyz)
    async with _running_server(app, port):
        yield


@asynccontextmanager
async def serve_metrics(metrics: Metrics, port: int) -> AsyncIterator[None]:
    """Serve /metrics on every address."""

    async def scrape(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(metrics.registry), headers=headers)

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    async with _running_server(app, port):
        yield


@asynccontextmanager
async def _running_server(app: web.Application, port: int) -> AsyncIterator[None]:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()
