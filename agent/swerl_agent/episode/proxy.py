"""Which proxy leads to an endpoint, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the environment say.

Guarantee: an address inside the cluster or this machine is never asked for through a proxy, whatever the environment
says; the proxy's password is in no message.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from .engine import EndpointError

INSIDE = (".svc", ".local", ".localhost", ".internal")  # ends of names that no public server has
LOOKUP_SECONDS = 5.0


@dataclass(frozen=True)
class Proxy:
    """One proxy."""

    url: URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # credentials for it


async def environment_proxy(url: str) -> Proxy | None:
    """The proxy that leads to `url`; None when it is asked directly. Raises EndpointError for none."""
    target = URL(url)
    named, host = getproxies().get(target.scheme), target.host
    if not named or host is None or proxy_bypass(f"{host}:{target.port}") or await is_inside(host):
        return None
    found = URL(named if "://" in named else f"http://{named}")
    if not found.host or found.scheme not in ("http", "https"):
        variable = f"{target.scheme.upper()}_PROXY"
        raise EndpointError(
            f"{variable} is not a usable proxy address: set http://host:port, or add {host} to NO_PROXY"
        )
    login = base64.b64encode(f"{found.user}:{found.password or ''}".encode()).decode()
    return Proxy(found.with_user(None), {"Proxy-Authorization": f"Basic {login}"} if found.user else {})


async def is_inside(host: str) -> bool:
    """Whether `host` is this machine, a Service or a Pod: by its name, or for all its addresses are private."""
    name = host.rstrip(".").lower()
    if (address := _address(name)) is not None:
        return not address.is_global
    if "." not in name or name.endswith(INSIDE):
        return True
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return False  # the proxy may know it
    addresses = [_address(str(sockaddr[0])) for *_, sockaddr in found]
    return bool(addresses) and all(address is not None and not address.is_global for address in addresses)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
