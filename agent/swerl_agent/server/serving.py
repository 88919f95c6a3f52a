"""An agent server on a port, from its start to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from swerl_api.addresses import url_host

from swerl_agent.listening import listening_site

from .app import AgentServer

LAST_ANSWERS = 10.0  # seconds to send what rollouts have ended with


async def serve(
    server: AgentServer, host: str, port: int, *, stop: asyncio.Event, grace: float, on_listening: Callable[[str], None]
) -> None:
    """Serve until `stop`, then end as in `AgentServer.drain`; `on_listening` gets the URL with the actual port.

    Raises OSError when the port cannot be had.
    """
    runner = web.AppRunner(
        server.application, access_log=None, handler_cancellation=True, shutdown_timeout=LAST_ANSWERS
    )
    await runner.setup()
    try:
        site = listening_site(runner, host, port)
        await site.start()
        bound = runner.addresses[0]
        on_listening(f"http://{url_host(bound[0])}:{bound[1]}")
        await stop.wait()
        await site.stop()
        await server.drain(grace)
    finally:
        await runner.cleanup()
