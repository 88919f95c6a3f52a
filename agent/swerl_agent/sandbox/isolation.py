"""The isolation check: probes from inside a sandbox before its first command.

Guarantees: a Pod that passes cannot reach any of these; otherwise the check raises `NotIsolated`:

* the API server, by service and node address
* name servers, over TCP and UDP
* the metadata address and the node's IPv6 link-local address
* a listener of this process

A policy engine may enforce a policy late, so a Pod that reaches an address is probed again until `SETTLE_SECONDS` have
passed. Results are not cached: one Pod's isolation proves nothing about another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from swerl_api import isolation
from swerl_api.base import Egress
from swerl_api.isolation import API_PORT, CONNECT_SECONDS, SCRIPT, ProbeTarget, own_address, private_targets, routable
from swerl_kube import KubeClient, KubeError

from .errors import NotIsolated
from .session import Session
from .wire import OutputLimit, quoted

SETTLE_SECONDS = 15.0  # for a policy engine to isolate a new Pod
PROBE_PAUSE = 0.3  # seconds between two probes


async def check_isolation(
    session: Session,
    targets: Sequence[ProbeTarget],
    *,
    egress: Egress = "none",
    api_port: int = API_PORT,
    settle: float = SETTLE_SECONDS,
) -> None:
    """Return once the Pod of `session` reaches no target; raises NotIsolated after `settle` seconds.

    With egress internet, the Pod may reach its name servers and those of `targets` that are public.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + settle
    while True:
        answers = await reached_addresses(session, targets, egress=egress, api_port=api_port)
        reached = isolation.reachability_problem(answers, egress)
        if not reached:
            return
        if clock() >= deadline:
            raise NotIsolated(reached)
        await asyncio.sleep(PROBE_PAUSE)


async def reached_addresses(
    session: Session, targets: Sequence[ProbeTarget], *, egress: Egress = "none", api_port: int = API_PORT
) -> str:
    """A line for each address that the Pod of `session` reaches now; raises NotIsolated if it cannot probe."""
    closed = private_targets(targets) if egress == "internet" else targets
    arguments = isolation.probe_arguments(closed, egress=egress, api_port=api_port)
    text = f"set -- {' '.join(map(quoted, arguments))}; eval {quoted(SCRIPT)}"
    result = await session.execute(text, timeout=CONNECT_SECONDS + 30, limit=OutputLimit(4096, 4096))
    failure = isolation.probe_failure(result.exit_code or int(result.timed_out), result.output)
    if failure:
        raise NotIsolated(failure)
    return result.stdout.decode(errors="replace")


@asynccontextmanager
async def probe_targets(client: KubeClient) -> AsyncIterator[list[ProbeTarget]]:
    """Targets known to the client: the API server's addresses, and a listener of this process during the context."""
    targets = await api_addresses(client)
    own = await asyncio.to_thread(own_address, client.server)
    if own is None:
        yield targets
        return
    server = await asyncio.start_server(lambda _, writer: writer.close(), own, 0)
    try:
        yield [*targets, (own, server.sockets[0].getsockname()[1])]
    finally:
        server.close()


async def api_addresses(client: KubeClient) -> list[ProbeTarget]:
    """Addresses of the `kubernetes` service and of `client`; only the latter without permission to read endpoints."""
    found: list[ProbeTarget] = []
    url = urlsplit(client.server)
    if url.hostname and routable(url.hostname):
        found.append((url.hostname, url.port or 443))
    try:
        service = await client.get("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes")
    except KubeError:
        return found
    return list(dict.fromkeys(found + isolation.endpoint_addresses(service)))
