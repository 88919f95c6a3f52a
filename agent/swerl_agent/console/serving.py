"""Serving the console while the index follows the folder."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable

from aiohttp import web
from swerl_api.addresses import url_host

from swerl_agent.listening import listening_site

from .index import EpisodeIndex

log = logging.getLogger(__name__)

EVERY = 5.0  # seconds between scans


async def serve_console(
    application: web.Application,
    index: EpisodeIndex,
    host: str,
    port: int,
    *,
    stop: asyncio.Event,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until `stop`; `on_listening` gets the address (without token) once it is open. Raises OSError."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    following = asyncio.create_task(_follow(index))
    try:
        await listening_site(runner, host, port).start()
        bound = runner.addresses[0]
        on_listening(f"http://{url_host(host)}:{bound[1]}/")
        await stop.wait()
    finally:
        following.cancel()
        await runner.cleanup()


async def _follow(index: EpisodeIndex) -> None:
    while True:
        try:
            await asyncio.to_thread(index.scan)
        except (OSError, sqlite3.Error) as error:
            log.error("the index of %s is not up to date: %s", index.root, error)
        await asyncio.sleep(EVERY)
