"""Credential plugins of a kubeconfig, run by the `kubernetes` package.

The kubeconfigs of EKS, GKE and AKS contain `exec`. `auth-provider` is OpenID Connect; refreshed tokens are written back
to the kubeconfig, as kubectl writes them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from .credentials import PluginAnswer
from .errors import ConfigError

RECHECK_SECONDS = 60.0  # after which the package looks again whether an auth provider's token expired
Run = Callable[[], PluginAnswer]


def exec_plugin(user: str, command: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> Run:
    """The plugin in `exec` of `user`, run in `folder`; `cluster` is shown to it where it has provideClusterInfo."""
    hint = f" ({command['installHint']})" if command.get("installHint") else ""
    return _guarded(user, lambda: _exec(user, command, folder, cluster), hint)


def auth_provider(user: str, name: str, files: Sequence[Path], context: str) -> Run:
    """The auth-provider `name` of `user` in `context` of these kubeconfig files."""
    return _guarded(user, lambda: _auth_provider(user, name, files, context))


def _guarded(user: str, run: Run, hint: str = "") -> Run:
    try:
        import kubernetes.config.kube_config  # noqa: F401
    except ImportError as error:
        message = f"{user} has a credential plugin, which needs the Python package kubernetes: pip install kubernetes"
        raise ConfigError(message) from error

    def guarded() -> PluginAnswer:
        try:
            return run()
        except ConfigError:
            raise
        except Exception as error:  # the package lets errors of JSON, subprocess and requests through
            raise ConfigError(f"{user}: its credential plugin failed: {error}{hint}") from error

    return guarded


def _exec(user: str, command: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]) -> PluginAnswer:
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    status: dict[str, Any] = ExecProvider(
        ConfigNode("exec", command), str(folder.absolute()), ConfigNode("cluster", cluster)
    ).run()
    token, expiration = status.get("token"), status.get("expirationTimestamp")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if not token and not (certificate and key):
        raise ConfigError(f"{user}: the plugin returned neither a token nor a client certificate with its key")
    return PluginAnswer(
        authorization=f"Bearer {token}" if token else None,
        certificate=f"{certificate}\n{key}".encode() if certificate and key else b"",
        expiration=datetime.fromisoformat(expiration).timestamp() if expiration else None,
    )


def _auth_provider(user: str, name: str, files: Sequence[Path], context: str) -> PluginAnswer:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    merged = KubeConfigMerger(os.pathsep.join(map(str, files)))
    loader = KubeConfigLoader(
        config_dict=merged.config, active_context=context, config_base_path=None, config_persister=merged.save_changes
    )
    loader.load_and_set(Configuration())
    token = getattr(loader, "token", None)
    if not token:
        raise ConfigError(f"{user}: auth-provider {name!r} gave no token; log in again with its own command")
    return PluginAnswer(authorization=str(token), expiration=time.time() + RECHECK_SECONDS)
