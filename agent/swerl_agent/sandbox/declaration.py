"""Writes that create and delete a group, retried while the API server is unavailable.

Guarantees:
* A restart of the API server, or a lost response, delays a declaration but never duplicates it: an annotation
  distinguishes the group from another one of the same name.
* A cancelled declaration leaves no group behind.
* Deleting a group that does not exist, or whose name was reused, is no error.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from swerl_kube import WRITE_RETRY, Conflict, KubeClient, KubeError, WriteRetry, retry_write

from .watch import GROUP_API, GROUPS

Json = dict[str, Any]
ANNOTATION = "swerl.dev/declaration"  # annotation of a SweSandbox, different for each declaration
UNDO_SECONDS = 5.0  # a cancelled declaration waits this long for the server's response, to delete the group
log = logging.getLogger(__name__)


async def declare(client: KubeClient, namespace: str, body: Json, retry: WriteRetry = WRITE_RETRY) -> Json:
    """The SweSandbox as the server stored it; raises ApiError when the server refuses it, Unreachable."""
    metadata = body["metadata"] | {"annotations": {ANNOTATION: secrets.token_hex(8)}}
    creating = asyncio.create_task(_create_once(client, namespace, body | {"metadata": metadata}, retry))
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
    retry: WriteRetry = WRITE_RETRY,
) -> None:
    """Delete an object and its dependents; with `uid` only that object. Raises ApiError, Unreachable."""

    async def delete() -> None:
        await client.delete(api, resource, namespace, name, grace_seconds=grace_seconds, uid=uid)

    with suppress(Conflict):
        await retry_write(delete, retry)


async def delete_best_effort(removal: Awaitable[None]) -> None:
    """Await a removal and log its failure; the sandbox then ends when its owner's Lease expires."""
    try:
        await removal
    except Exception as error:
        log.warning("a sandbox could not be deleted; it ends when its Lease expires: %s", error)


async def _create_once(client: KubeClient, namespace: str, body: Json, retry: WriteRetry) -> Json:
    metadata, attempted = body["metadata"], False

    async def create() -> Json:
        nonlocal attempted
        try:
            return await client.create(GROUPS, body, namespace=namespace)
        except Conflict:
            if not attempted:
                raise
            found = await client.get(GROUP_API, GROUPS, namespace, metadata["name"])
            if (found["metadata"].get("annotations") or {}).get(ANNOTATION) != metadata["annotations"][ANNOTATION]:
                raise
            return found
        finally:
            attempted = True

    return await retry_write(create, retry)
