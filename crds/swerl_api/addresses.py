"""Hosts of URLs and of listening sockets."""

from __future__ import annotations

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})  # names of this machine that only it reaches


def url_host(host: str) -> str:
    """`host` as URLs have it: an IPv6 address in brackets (RFC 3986), a name or an IPv4 address as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
