"""Isolation of a sandbox, tried out from inside before its first command.

Guarantees: the API server (service and node address), name servers over TCP and UDP, the metadata address, the node's
IPv6 link-local address and a listener of this very process were all out of reach of this very Pod; otherwise
`NotIsolated`. A policy engine may leave a new Pod open for a moment, so a Pod that reaches something is asked again
until `PATIENCE` is over. Nothing is cached: what one Pod cannot reach says nothing about the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from swerl_api import isolation
from swerl_api.isolation import API_PORT, CONNECT_SECONDS, SCRIPT, Target, own_address, routable

from ..kube import KubeClient, KubeError
from .errors import NotIsolated
from .session import Session
from .wire import Cut, quoted

PATIENCE = 15.0  # seconds a policy engine may take to close a new Pod
PAUSE = 0.3


async def check_isolation(
    session: Session, targets: Sequence[Target], *, api_port: int = API_PORT, patience: float = PATIENCE
) -> None:
    """Return once nothing answers the Pod of `session`; raises NotIsolated after `patience` seconds of answers."""
    words = isolation.words(targets, api_port=api_port)
    text = f"set -- {' '.join(map(quoted, words))}; eval {quoted(SCRIPT)}"
    clock = asyncio.get_running_loop().time
    give_up = clock() + patience
    while True:
        result = await session.execute(text, timeout=CONNECT_SECONDS + 30, cut=Cut(4096, 4096))
        doubt = isolation.doubt(result.exit_code or int(result.timed_out), result.output)
        if doubt:
            raise NotIsolated(doubt)
        reached = isolation.reached(result.stdout.decode(errors="replace"))
        if not reached:
            return
        if clock() >= give_up:
            raise NotIsolated(reached)
        await asyncio.sleep(PAUSE)


@asynccontextmanager
async def listening(client: KubeClient) -> AsyncIterator[list[Target]]:
    """Targets only this side knows: the API server's own addresses, and a listener of ours while the context lasts."""
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


async def api_addresses(client: KubeClient) -> list[Target]:
    """Addresses behind the `kubernetes` service, and the one we use; without the right to read them only the latter."""
    found: list[Target] = []
    url = urlsplit(client.server)
    if url.hostname and routable(url.hostname):
        found.append((url.hostname, url.port or 443))
    try:
        service = await client.get("discovery.k8s.io/v1", "endpointslices", "default", "kubernetes")
    except KubeError:
        return found
    return list(dict.fromkeys(found + isolation.behind(service)))
