"""How the isolation of a sandbox is tried out from inside: what is asked, and what the answers mean.

The operator asks before it calls a group Ready, whoever claims a sandbox before its first command.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Target = tuple[str, int]  # host, TCP port

SCRIPT = (Path(__file__).parent / "probe.sh").read_text()  # prints what answers, one line each
CONNECT_SECONDS = 1  # an address within reach answers in milliseconds
API_PORT = 6443  # on which the API server of a node is looked for behind link-local addresses
NO_TOOL = 3  # exit code of the script


def words(targets: Iterable[Target], name_servers: Iterable[str] = (), *, api_port: int = API_PORT) -> list[str]:
    """Arguments of the script: it tries these and what the Pod knows by itself."""
    asked = [f"tcp {host} {port}" for host, port in targets]
    asked += [f"{kind} {host} 53" for host in name_servers for kind in ("tcp", "dns")]
    return [str(CONNECT_SECONDS), str(api_port), *asked]


def doubt(exit_code: int, noise: str) -> str:
    """Why the script proves nothing, having ended so; '' where it does. `noise`: whatever else it said."""
    if exit_code == NO_TOOL:
        return "isolation cannot be checked: the image has no bash, python3 or nc; set egress: allow"
    return f"isolation cannot be checked: exit code {exit_code}: {noise.strip()}".rstrip(": ") if exit_code else ""


def reached(answers: str) -> str:
    """What the sandbox reached, and what to do about it; '' where nothing answered."""
    if not answers.strip():
        return ""
    return (
        f"the sandbox reached {', '.join(sorted(set(answers.splitlines())))}; the cluster does not enforce the "
        "NetworkPolicy (install an engine that does, or set egress: allow)"
    )


def behind(slice: Mapping[str, Any]) -> list[Target]:
    """The addresses of a service, of one of its EndpointSlices."""
    ports = [port["port"] for port in slice.get("ports") or []]
    return [
        (address, port)
        for endpoint in slice.get("endpoints") or []
        for address in endpoint["addresses"]
        for port in ports
    ]


def own_address(server: str) -> str | None:
    """This machine's address on the way to the URL `server`; None for a loopback address. Raises OSError: no way."""
    url = urlsplit(server)
    for family, _, _, _, address in socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_DGRAM):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect(address)  # sends nothing; fails where the machine has no way to such an address
            host = str(way.getsockname()[0])
            return host if routable(host) else None
    raise OSError(f"this machine has no way to {server}")


def routable(host: str) -> bool:
    """Whether `host` is an address that others can reach, too."""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
