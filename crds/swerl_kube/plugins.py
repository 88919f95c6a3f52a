"""Credential plugins of a kubeconfig, run by the `kubernetes` package.

The kubeconfigs of EKS, GKE and AKS contain `exec`. `auth-provider` is OpenID Connect; refreshed tokens are written back
to the kubeconfig, as kubectl writes them.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .credentials import PluginAnswer
from .errors import ConfigError

if TYPE_CHECKING:
    from .kubeconfig import Entry, Kubeconfig

RECHECK_SECONDS = 60.0  # after which the package looks again whether an auth provider's token expired


def plugin(config: Kubeconfig, context: str, cluster: Entry, user: Entry) -> Callable[[], PluginAnswer]:
    """The plugin of `user` as a function that runs it and raises ConfigError."""
    try:
        import kubernetes.config.kube_config  # noqa: F401
    except ImportError as error:
        message = f"{user} has a credential plugin, which needs the Python package kubernetes: pip install kubernetes"
        raise ConfigError(message) from error

    def run() -> PluginAnswer:
        try:
            return _exec(cluster, user) if "exec" in user.fields else _auth_provider(config, context, user)
        except ConfigError:
            raise
        except Exception as error:  # of whatever kind: the package lets those of JSON, subprocess and requests through
            raise ConfigError(f"{user}: its credential plugin failed: {error}{_hint(user)}") from error

    return run


def _exec(cluster: Entry, user: Entry) -> PluginAnswer:
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    folder = str(user.file.parent.absolute())
    status: dict[str, Any] = ExecProvider(
        ConfigNode("exec", user.fields["exec"]), folder, ConfigNode("cluster", _shown(cluster))
    ).run()
    expiration = status.get("expirationTimestamp")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    token = status.get("token")
    if not token and not (certificate and key):
        raise ConfigError(f"{user}: the plugin returned neither a token nor a client certificate with its key")
    return PluginAnswer(
        authorization=f"Bearer {token}" if token else None,
        certificate=f"{certificate}\n{key}".encode() if certificate and key else b"",
        expiration=datetime.fromisoformat(expiration).timestamp() if expiration else None,
    )


def _shown(cluster: Entry) -> dict[str, Any]:
    """The cluster as a plugin with provideClusterInfo sees it: the authority as data, whatever the file names."""
    fields = {name: value for name, value in cluster.fields.items() if name != "certificate-authority"}
    authority = cluster.content("certificate-authority")
    return fields | ({"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {})


def _auth_provider(config: Kubeconfig, context: str, user: Entry) -> PluginAnswer:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    merged = KubeConfigMerger(os.pathsep.join(map(str, config.paths)))
    loader = KubeConfigLoader(
        config_dict=merged.config, active_context=context, config_base_path=None, config_persister=merged.save_changes
    )
    loader.load_and_set(Configuration())
    token = getattr(loader, "token", None)
    if not token:
        provider = (user.fields["auth-provider"] or {}).get("name")
        raise ConfigError(f"{user}: auth-provider {provider!r} gave no token; log in again with its own command")
    return PluginAnswer(authorization=str(token), expiration=time.time() + RECHECK_SECONDS)


def _hint(user: Entry) -> str:
    hint = (user.fields.get("exec") or {}).get("installHint")
    return f" ({hint})" if hint else ""
