"""Where an API server is and who this process is there, whatever the configuration came from."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from .credentials import Credentials


@dataclass(frozen=True)
class ClusterConfig:
    """One API server and one identity."""

    server: str  # https://host:port, without trailing slash
    namespace: str  # default of the context, or of the Pod
    tls: ssl.SSLContext | None  # None for plain http
    credentials: Credentials
    proxy: str | None = None  # URL of the HTTP proxy to the server
    impersonation: tuple[tuple[str, str], ...] = ()  # headers that name the user to act as; a name may repeat
