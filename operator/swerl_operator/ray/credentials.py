"""Ray's token, and the API key of engines and router, for each job or evaluation; the Secret with them for its Pods.

Guarantees: both values follow from a key of the operator's own and the owner's UID. So the operator reads no Secret of
the namespaces that it serves, another operator process knows the same values, and no two owners share one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from swerl_api.names import API_KEY_VARIABLE
from swerl_kube import Conflict, Json, KubeClient

from ..context import Settings

KEY_BYTES = 32
KEY_FIELD = "key"  # of the operator's own Secret
RAY_TOKEN, ENGINE_KEY = "ray-token", "engine-key"  # fields of the Secret of an owner


@dataclass(frozen=True)
class RayCredentials:
    """What the Ray Pods of one owner ask of their clients."""

    ray_token: str = field(repr=False)
    engine_key: str = field(repr=False)

    def secret_name(self, prefix: str) -> str:
        """Name of the Secret that holds them: others have another, so that one of another key is never used."""
        return f"{prefix}-{hashlib.sha256(self.ray_token.encode()).hexdigest()[:8]}"


class CredentialSource:
    """Derives credentials from the operator's key, which it creates at the first call."""

    def __init__(self, api: KubeClient, settings: Settings) -> None:
        self._api = api
        self._place = settings.lease_namespace, f"{settings.lease_name}-key"
        self._lock = asyncio.Lock()
        self._key = b""

    async def of(self, uid: str) -> RayCredentials:
        """The credentials of the owner with this UID; raises ApiError."""
        async with self._lock:
            self._key = self._key or await self._read()
        ray_token, engine_key = (
            hmac.new(self._key, f"{purpose}/{uid}".encode(), hashlib.sha256).hexdigest()
            for purpose in (RAY_TOKEN, ENGINE_KEY)
        )
        return RayCredentials(ray_token, engine_key)

    async def create_secret(self, metadata: Json, uid: str) -> str:
        """Create the Secret of the owner, unless it exists; its name, which starts with that of `metadata`."""
        found = await self.of(uid)
        name = found.secret_name(metadata["name"])
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata | {"name": name},
            "immutable": True,
            "stringData": {RAY_TOKEN: found.ray_token, ENGINE_KEY: found.engine_key},
        }
        try:
            await self._api.create("secrets", body)
        except Conflict as conflict:  # a Secret of this name has the same content; but a quota may be in the way
            if not conflict.already_exists:
                raise
        return name

    async def _read(self) -> bytes:
        """The operator's key; a new one if there is none. The chart creates its Secret empty."""
        found = await self._api.find("v1", "secrets", *self._place)
        if found is None or not (found.get("data") or {}).get(KEY_FIELD):
            await self._write(found)
            found = await self._api.get("v1", "secrets", *self._place)
        return base64.b64decode(found["data"][KEY_FIELD])

    async def _write(self, found: Json | None) -> None:
        data = {KEY_FIELD: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}
        namespace, name = self._place
        with contextlib.suppress(Conflict):  # the key that another process wrote is read instead
            if found is None:
                metadata = {"namespace": namespace, "name": name}
                await self._api.create(
                    "secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
                )
            else:
                version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                await self._api.patch("v1", "secrets", namespace, name, {"metadata": version, "data": data})


def ray_environment(secret: str) -> list[Json]:
    """Environment of a Ray container: Ray requires the token of `secret`, engines and router the key."""
    return [
        {"name": "RAY_AUTH_MODE", "value": "token"},
        _variable("RAY_AUTH_TOKEN", secret, RAY_TOKEN),
        engine_key_variable(secret),
    ]


def engine_key_variable(secret: str) -> Json:
    """Environment variable of a client of engines."""
    return _variable(API_KEY_VARIABLE, secret, ENGINE_KEY)


def _variable(name: str, secret: str, key: str) -> Json:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
