"""Hosts of URLs and of listening sockets."""

from __future__ import annotations

import socket

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})  # names of this machine that only it reaches
ANY_IPV4, ANY = "0.0.0.0", "::"  # every IPv4 address of this machine; every address


def url_host(host: str) -> str:
    """`host` as URLs have it: an IPv6 address in brackets (RFC 3986), a name or an IPv4 address as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def any_host() -> str:
    """The host that takes connections of both families; that of IPv4 where the machine has no IPv6."""
    return ANY if socket.has_dualstack_ipv6() else ANY_IPV4


def any_host_socket(port: int) -> socket.socket:
    """A listening TCP socket for both families, for IPv4 alone where the machine has no IPv6. Raises OSError."""
    if any_host() == ANY:
        return socket.create_server((ANY, port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server((ANY_IPV4, port))
