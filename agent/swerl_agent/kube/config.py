"""Where the API server is and who we are there.

Guarantees: credentials come from a kubeconfig or from the files a Pod is given, nowhere else; a token kept in a file is
read again when the file changes, so rotation needs no restart; a missing field is a `ConfigError` that names it.
Exec and auth-provider plugins are not supported.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .errors import ConfigError

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass
class Token:
    """A bearer token: fixed, or a file that something else keeps fresh."""

    fixed: str | None = None
    path: Path | None = None
    _seen: tuple[int, str] | None = field(default=None, repr=False)

    def read(self) -> str | None:
        """The token now; the file is read again only when its modification time changed."""
        if self.path is None:
            return self.fixed
        try:
            changed = self.path.stat().st_mtime_ns
            if self._seen is None or self._seen[0] != changed:
                self._seen = (changed, self.path.read_text().strip())
        except OSError as error:
            raise ConfigError(f"cannot read the service account token {self.path}: {error}") from error
        return self._seen[1]


@dataclass(frozen=True)
class ClusterConfig:
    """One API server and one identity."""

    server: str  # https://host:port, without trailing slash
    namespace: str  # default of the context, or of the Pod
    tls: ssl.SSLContext | None  # None for plain http
    token: Token


def load(kubeconfig: str | None = None) -> ClusterConfig:
    """`kubeconfig`, else $KUBECONFIG, else the Pod's service account, else ~/.kube/config; the first that is there."""
    explicit = kubeconfig or os.environ.get("KUBECONFIG")
    if explicit:
        return from_kubeconfig(Path(explicit.split(os.pathsep)[0]))
    if (IN_CLUSTER / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    return from_kubeconfig(Path.home() / ".kube" / "config")


def in_cluster(folder: Path = IN_CLUSTER) -> ClusterConfig:
    """The identity every Pod with a service account token has."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this process does not run in a Pod; give a kubeconfig")
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    bracketed = f"[{host}]" if ":" in host else host
    namespace = (folder / "namespace").read_text().strip()
    return ClusterConfig(f"https://{bracketed}:{port}", namespace, tls, Token(path=folder / "token"))


def from_kubeconfig(path: Path) -> ClusterConfig:
    """The current context of a kubeconfig file; relative paths in it are relative to the file."""
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} is not a mapping")
    context = _entry(path, document, "contexts", "context", document.get("current-context"))
    cluster = _entry(path, document, "clusters", "cluster", context.get("cluster"))
    user = _entry(path, document, "users", "user", context.get("user"))
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise ConfigError(f"kubeconfig {path}: cluster {context.get('cluster')} has no server")
    if "exec" in user or "auth-provider" in user:
        raise ConfigError(f"kubeconfig {path}: credential plugins are not supported; use a token or a certificate")
    token_file = user.get("tokenFile")
    token = Token(fixed=user.get("token"), path=path.parent / token_file if token_file else None)
    tls = _tls(path, cluster, user) if server.startswith("https") else None
    return ClusterConfig(server, context.get("namespace") or "default", tls, token)


def _entry(path: Path, document: dict[str, Any], section: str, kind: str, name: Any) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if entry.get("name") == name:
            found: dict[str, Any] = entry.get(kind) or {}
            return found
    raise ConfigError(f"kubeconfig {path}: no entry named {name!r} in {section}")


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _bytes(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _bytes(path, user, "client-certificate"), _bytes(path, user, "client-key")
    if certificate and key:
        _load_pair(context, certificate, key)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """`ssl` takes a client certificate only from a file: one of mode 0600 that lives for this call."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
        pair.write(certificate + b"\n" + key)
        pair.flush()
        context.load_cert_chain(pair.name)


def _bytes(path: Path, section: dict[str, Any], name: str) -> bytes | None:
    """`<name>-data` (base64) or the file `<name>`."""
    data, file = section.get(f"{name}-data"), section.get(name)
    try:
        if data:
            return base64.b64decode(data)
        return (path.parent / file).read_bytes() if file else None
    except (OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {path}: {name} cannot be read: {error}") from error
