"""The operator's use of the Kubernetes API: its limits, its metrics, and kopf's connection with the same identity.

Guarantee: kopf and the operator's own client read the same configuration (a Pod's service account or a kubeconfig).
"""

from __future__ import annotations

import dataclasses
import itertools
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import kopf
from swerl_kube import ClientOptions, ClusterConfig, ConfigError, KubeClient
from swerl_kube.config import load

from .metrics import Metrics

OPTIONS = ClientOptions(call_timeout=15.0, connections=64, read_retries=0, watch_idle_timeout=90.0, cached_lists=True)


def operator_client(metrics: Metrics, options: ClientOptions = OPTIONS) -> KubeClient:
    """The client of the surrounding Pod or kubeconfig, measured in `metrics`; raises ConfigError without either."""
    return KubeClient(load(), options, observer=metrics.api_request)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection(kopf.ConnectionInfo):
    """kopf's connection over the TLS context of a ClusterConfig, as the user that it names."""

    tls: ssl.SSLContext | None = dataclasses.field(default=None, compare=False)
    impersonation: tuple[tuple[str, str], ...] = ()

    def as_http_headers(self) -> dict[str, str]:
        if len(headers := dict(self.impersonation)) < len(self.impersonation):
            raise ConfigError(
                "kubeconfig: the operator can impersonate a user of one group and one value of each extra"
            )
        return headers | super().as_http_headers()

    def as_ssl_context(self) -> ssl.SSLContext:
        return self.tls or super().as_ssl_context()


def kopf_login(config: ClusterConfig) -> Callable[..., Awaitable[kopf.ConnectionInfo]]:
    """Handler that logs kopf in to the same server as the same user; kopf calls it again at expiry and after a 401."""
    logins = itertools.count()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        if next(logins):
            config.credentials.reject()
        await config.credentials.refresh()
        scheme, token = [*(config.credentials.authorization() or "").split(" ", 1), "", ""][:2]
        expiration = config.credentials.expiration
        return Connection(
            server=config.server,
            tls=config.tls,
            impersonation=config.impersonation,
            scheme=scheme or None,
            token=token or None,
            proxy_url=config.proxy,
            default_namespace=config.namespace,
            expiration=None if expiration is None else datetime.fromtimestamp(expiration, UTC),
        )

    return login
