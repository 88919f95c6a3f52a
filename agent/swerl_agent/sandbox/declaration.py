"""The writes by which a group comes and goes, repeated while the API server is away.

Guarantees: an API server that restarts, or whose answer is lost, costs time and no object: a declaration is carried out
once, told from a namesake's by a mark of its own; a declaration whose caller goes away leaves none behind; to remove
what is gone, or has been made anew under its name, is no error.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from swerl_api.retry_after import at_least_as_told

from ..kube import Conflict, KubeClient, KubeError, NotFound, ServerError, Throttled, Unreachable
from .watch import GROUP_API, GROUPS

Json = dict[str, Any]
T = TypeVar("T")
MARK = "swerl.dev/declaration"  # annotation of a SweSandbox, different for each declaration
PERSISTENCE = 60.0  # seconds for which a write is tried again
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0  # seconds between two tries, doubled each time
UNDO_SECONDS = 5.0  # that a cancelled declaration waits for the server, to delete what it made
log = logging.getLogger(__name__)


async def declare(client: KubeClient, namespace: str, body: Json) -> Json:
    """The SweSandbox as the server made it; raises ApiError as the server refuses, Unreachable."""
    metadata = body["metadata"] | {"annotations": {MARK: secrets.token_hex(8)}}
    creating = asyncio.create_task(_once(client, namespace, body | {"metadata": metadata}))
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        await asyncio.wait([creating], timeout=UNDO_SECONDS)
        if creating.done() and not creating.exception():
            with suppress(KubeError):
                await client.delete(GROUP_API, GROUPS, namespace, body["metadata"]["name"])
        creating.cancel()
        raise


async def remove(
    client: KubeClient,
    api: str,
    resource: str,
    namespace: str,
    name: str,
    *,
    uid: str | None = None,
    grace_seconds: int | None = None,
) -> None:
    """Delete an object (only the one with `uid`, when given) and what it owns; raises ApiError, Unreachable."""

    async def delete() -> None:
        await client.delete(
            api, resource, namespace, name, grace_seconds=grace_seconds, propagation="Background", uid=uid
        )

    with suppress(NotFound, Conflict):
        await _persistently(delete)


async def delete_best_effort(removal: Awaitable[None]) -> None:
    """Await a removal; what cannot be removed now is logged, and ends with its owner's Lease."""
    try:
        await removal
    except Exception as error:
        log.warning("a sandbox could not be removed now, its lease will: %s", error)


async def _once(client: KubeClient, namespace: str, body: Json) -> Json:
    metadata, asked = body["metadata"], False

    async def create() -> Json:
        nonlocal asked
        try:
            return await client.create(GROUP_API, GROUPS, namespace, body)
        except Conflict:
            if not asked:
                raise
            found = await client.get(GROUP_API, GROUPS, namespace, metadata["name"])
            if (found["metadata"].get("annotations") or {}).get(MARK) != metadata["annotations"][MARK]:
                raise
            return found
        finally:
            asked = True

    return await _persistently(create)


async def _persistently(write: Callable[[], Awaitable[T]]) -> T:
    """What `write` returns, once the server can be reached and asks nobody to wait."""
    give_up, pause = time.monotonic() + PERSISTENCE, FIRST_PAUSE
    while True:
        try:
            return await write()
        except (Unreachable, Throttled, ServerError) as error:
            wait = at_least_as_told(pause * random.uniform(0.5, 1.0), error.retry_after)
            if time.monotonic() + wait > give_up:
                raise
        await asyncio.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE)
