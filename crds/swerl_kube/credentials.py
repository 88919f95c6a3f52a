"""Who this process is at the API server, as an Authorization header that stays valid.

Guarantees: a token file is read again when it changes, so rotation needs no restart; a credential plugin runs again
before its credentials expire, and after the server rejected them; concurrent requests share one run of a plugin.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import ConfigError

EXPIRY_MARGIN = 30.0  # seconds before their expiry at which credentials of a plugin are renewed


class Credentials:
    """A fixed Authorization header, or none (an anonymous client, or one with a client certificate)."""

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization

    def authorization(self) -> str | None:
        """The header's value now; raises ConfigError."""
        return self._authorization

    async def refresh(self) -> None:
        """Renew what is about to expire; raises ConfigError."""

    def reject(self) -> None:
        """The server answered 401: renew at the next `refresh`."""

    @property
    def expiration(self) -> float | None:
        """Epoch seconds at which the credentials end, where that is known."""
        return None


class TokenFile(Credentials):
    """A bearer token in a file that another process keeps fresh, such as the kubelet."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._changed = -1

    def authorization(self) -> str | None:
        """The token; the file is read only when its modification time changed."""
        try:
            changed = self._path.stat().st_mtime_ns
            if self._changed != changed:
                self._changed, self._authorization = changed, f"Bearer {self._path.read_text().strip()}"
        except OSError as error:
            raise ConfigError(f"cannot read the token file {self._path}: {error}") from error
        return self._authorization


@dataclass(frozen=True)
class PluginAnswer:
    """Credentials of one run of a plugin: a token, or a client certificate."""

    authorization: str | None = None
    certificate: bytes = b""  # PEM of certificate and key
    expiration: float | None = None  # epoch seconds; None: until the server rejects them


class PluginCredentials(Credentials):
    """Credentials that `run` makes; it blocks, and raises ConfigError. `tls` receives client certificates."""

    def __init__(self, run: Callable[[], PluginAnswer], tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._run, self._tls = run, tls
        self._lock = asyncio.Lock()
        self._rejected = False
        self._take(run())

    @property
    def expiration(self) -> float | None:
        return self._answer.expiration

    def reject(self) -> None:
        self._rejected = True

    async def refresh(self) -> None:
        if not self._due():
            return
        async with self._lock:
            if self._due():
                self._take(await asyncio.to_thread(self._run))

    def _due(self) -> bool:
        expiration = self._answer.expiration
        return self._rejected or (expiration is not None and time.time() > expiration - EXPIRY_MARGIN)

    def _take(self, answer: PluginAnswer) -> None:
        self._answer, self._authorization, self._rejected = answer, answer.authorization, False
        if answer.certificate and self._tls is not None:
            load_client_certificate(self._tls, answer.certificate)


def load_client_certificate(tls: ssl.SSLContext, pem: bytes) -> None:
    """Use the certificate and key in `pem`. `ssl` reads them only from a file: one of mode 0600 for this call."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
        pair.write(pem)
        pair.flush()
        try:
            tls.load_cert_chain(pair.name)
        except ssl.SSLError as error:
            raise ConfigError(f"the client certificate or its key cannot be used: {error}") from error
