"""Where the API server is and who this process is there.

Guarantees: credentials come from a kubeconfig or from the files of a Pod's service account, nowhere else. What cannot
be used is a `ConfigError` that names the file and field. A Pod's configuration needs no package.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from swerl_api.addresses import url_host

from .cluster_config import ClusterConfig
from .credentials import TokenFile
from .errors import ConfigError
from .kubeconfig import read_kubeconfig

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class KubeContext:
    """A context of a kubeconfig; None leaves the choice to `load`."""

    kubeconfig: str | None = None
    context: str | None = None


def load(source: str | KubeContext | None = None) -> ClusterConfig:
    """The kubeconfig named, else $KUBECONFIG, else the Pod's service account, else ~/.kube/config: the first present.

    $KUBECONFIG may name several files. Without a context the kubeconfig's current-context counts. Raises ConfigError.
    """
    chosen = source if isinstance(source, KubeContext) else KubeContext(source)
    kubeconfig, context = chosen.kubeconfig, chosen.context
    if kubeconfig:
        return read_kubeconfig([Path(kubeconfig)], context)
    if named := [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]:
        return read_kubeconfig(named, context)
    if context is None and (IN_CLUSTER / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    return read_kubeconfig([Path.home() / ".kube" / "config"], context)


def in_cluster(folder: Path = IN_CLUSTER) -> ClusterConfig:
    """The identity of a Pod with a service account token; raises ConfigError elsewhere."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a Pod; give a kubeconfig")
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(f"cannot read the service account's files in {folder}: {error}") from error
    return ClusterConfig(f"https://{url_host(host)}:{port}", namespace, tls, TokenFile(folder / "token"))
