"""The isolation check from inside a sandbox: the probe's arguments, and the meaning of its output.

The operator checks a group before it becomes Ready, a client checks a sandbox before its first command.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .base import Egress

ProbeTarget = tuple[str, int]  # host, TCP port

SCRIPT = (Path(__file__).parent / "probe.sh").read_text()  # prints each address that answers on a line
CONNECT_SECONDS = 1  # at most, on a busy node; a reachable address answers in milliseconds
API_PORT = 6443  # where the probe tries the API server of a node at link-local addresses
UNCHECKED = "isolation cannot be checked"  # begins a failure that says nothing about the network
NO_TOOL = 3  # exit code of the script when the image has no tool to connect with


def probe_arguments(
    targets: Iterable[ProbeTarget],
    name_servers: Iterable[str] = (),
    *,
    egress: Egress = "none",
    api_port: int = API_PORT,
) -> list[str]:
    """Arguments of the script: it tries these addresses and those the Pod knows by itself.

    A Pod with egress internet may reach the name servers that it knows.
    """
    lines = [f"tcp {host} {port}" for host, port in targets]
    lines += [f"{kind} {host} 53" for host in name_servers for kind in ("tcp", "dns")]
    return [str(CONNECT_SECONDS), str(api_port), egress, *lines]


def probe_failure(exit_code: int, output: str) -> str:
    """Why a script that ended so checked nothing; '' if it did. `output`: what else it printed."""
    if exit_code == NO_TOOL:
        return f"{UNCHECKED}: the image has no bash, python3 or nc; set egress: allow"
    return f"{UNCHECKED}: exit code {exit_code}: {output.strip()}".rstrip(": ") if exit_code else ""


def reachability_problem(answers: str, egress: Egress = "none") -> str:
    """What the sandbox reached, and how to fix it; '' if nothing answered."""
    if not answers.strip():
        return ""
    remedy = "install an engine that does, or set egress: allow"
    if egress == "internet":
        remedy = f"{remedy}; if these are public addresses of the cluster, add them to sandboxes.internet.except"
    return (
        f"the sandbox reached {', '.join(sorted(set(answers.splitlines())))}; the cluster does not enforce the "
        f"NetworkPolicy ({remedy})"
    )


def private_targets(targets: Iterable[ProbeTarget]) -> list[ProbeTarget]:
    """Those that are no public address: a Pod with egress internet may reach the others."""
    return [(host, port) for host, port in targets if _private(host)]


def endpoint_addresses(slice: Mapping[str, Any]) -> list[ProbeTarget]:
    """The addresses in one EndpointSlice of a service."""
    ports = [port["port"] for port in slice.get("ports") or []]
    return [
        (address, port)
        for endpoint in slice.get("endpoints") or []
        for address in endpoint["addresses"]
        for port in ports
    ]


def own_address(server: str) -> str | None:
    """This machine's address on the route to the URL `server`; None for a loopback address. OSError without a route."""
    url = urlsplit(server)
    for family, _, _, _, address in socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_DGRAM):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as connection:
            connection.connect(address)  # sends nothing; fails where the machine has no route to such an address
            host = str(connection.getsockname()[0])
            return host if routable(host) else None
    raise OSError(f"this machine has no route to {server}")


def routable(host: str) -> bool:
    """Whether `host` is an address that others can reach, too."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return False  # a host name, whose address may be public
