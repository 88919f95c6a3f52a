"""Where the HTTP servers of this package listen.

Guarantee: `::` takes connections of IPv4 and IPv6, which asyncio's own sockets do not.
"""

from __future__ import annotations

from aiohttp import web
from swerl_api.addresses import ANY, any_host_socket


def listening_site(runner: web.AppRunner, host: str, port: int) -> web.BaseSite:
    """The site to start; starting it, or this call, raises OSError when the port cannot be had."""
    if host == ANY:
        return web.SockSite(runner, any_host_socket(port))
    return web.TCPSite(runner, host, port)
