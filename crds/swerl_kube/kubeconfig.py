"""Kubeconfig files, read as kubectl reads them.

Guarantees: of several files the first that sets a value wins (an entry of clusters, contexts, users by its name, and
current-context). Files that do not exist are skipped. A relative path is relative to the file that contains it.
`proxy-url`, `tls-server-name` and the impersonation of a user (`as`, `as-uid`, `as-groups`, `as-user-extra`) are
supported; a proxy that is not HTTP is refused. The `kubernetes` package runs credential plugins (see plugins.py); it
is imported only for a user that has one.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from .cluster_config import ClusterConfig
from .credentials import Credentials, PluginCredentials, TokenFile, load_client_certificate
from .errors import ConfigError
from .plugins import auth_provider, exec_plugin

_HEADER_CHARACTERS = "!#$&'*+^`|"  # of a header's name, besides those that `quote` leaves; `%` begins an escape
_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}


@dataclass(frozen=True)
class KubeconfigEntry:
    """One named entry of a kubeconfig, and the file it comes from."""

    file: Path
    section: str
    name: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        return f"kubeconfig {self.file}: {_SECTIONS[self.section]} {self.name!r}"

    def text(self, field: str) -> str:
        """The field as text, '' where it is not set."""
        return str(self.fields.get(field) or "")

    def path(self, field: str) -> Path | None:
        """The field as a path."""
        return self.file.parent / self.text(field) if self.text(field) else None

    def content(self, field: str) -> bytes | None:
        """`<field>-data` (base64), or the content of the file `<field>`."""
        try:
            if data := self.fields.get(f"{field}-data"):
                return base64.b64decode(data)
            return path.read_bytes() if (path := self.path(field)) else None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self}: {field} cannot be read: {error}") from error


class Kubeconfig:
    """The merged content of kubeconfig files; raises ConfigError when none exists or one cannot be read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path for path in paths if path.exists()]
        if not self.paths:
            raise ConfigError(f"cannot read kubeconfig {', '.join(map(str, paths))}: no such file")
        self.current_context = ""
        self._entries: dict[tuple[str, str], KubeconfigEntry] = {}
        for path in self.paths:
            self._merge(path, _document(path))

    def __str__(self) -> str:
        return f"kubeconfig {', '.join(map(str, self.paths))}"

    def entry(self, section: str, name: str) -> KubeconfigEntry:
        """The entry called `name`; raises ConfigError."""
        try:
            return self._entries[section, name]
        except KeyError:
            known = ", ".join(sorted(each for kind, each in self._entries if kind == section)) or "none"
            raise ConfigError(f"{self}: no entry named {name!r} in {section} (there are: {known})") from None

    def _merge(self, path: Path, document: dict[str, Any]) -> None:
        self.current_context = self.current_context or str(document.get("current-context") or "")
        for section, kind in _SECTIONS.items():
            for item in document.get(section) or []:
                entry = KubeconfigEntry(path, section, str(item.get("name")), item.get(kind) or {})
                self._entries.setdefault((section, entry.name), entry)


def read_kubeconfig(paths: Sequence[Path], context: str | None = None) -> ClusterConfig:
    """The context `context`, else the current one, of these files."""
    config = Kubeconfig(paths)
    name = context or config.current_context
    if not name:
        raise ConfigError(
            f"kubeconfig {', '.join(map(str, config.paths))}: no current-context; name one with --context"
        )
    chosen = config.entry("contexts", name)
    cluster = config.entry("clusters", chosen.text("cluster"))
    user = config.entry("users", chosen.text("user")) if chosen.text("user") else None
    server = cluster.text("server").rstrip("/")
    if not server:
        raise ConfigError(f"{cluster} has no server")
    tls = _tls(cluster, user) if server.startswith("https") else None
    return ClusterConfig(
        server=server,
        namespace=chosen.text("namespace") or "default",
        tls=tls,
        credentials=_credentials(config, name, cluster, user, tls),
        proxy=_proxy(cluster),
        impersonation=_impersonation(user) if user is not None else (),
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} is not a mapping")
    return document


def _proxy(cluster: KubeconfigEntry) -> str | None:
    url = cluster.text("proxy-url")
    if url and not url.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{cluster}: proxy-url {url!r} is not supported; use an http:// or https:// proxy")
    return url or None


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    """Headers that make the API server act as another user, as kubectl sends them."""
    name, uid = user.text("as"), user.text("as-uid")
    groups, extra = user.fields.get("as-groups") or [], user.fields.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            raise ConfigError(f"{user}: as-uid, as-groups and as-user-extra need the user to act as, in the field `as`")
        return ()
    headers = [("Impersonate-User", name), *(("Impersonate-Group", str(group)) for group in groups)]
    headers += [("Impersonate-Uid", uid)] if uid else []
    for key, values in extra.items():
        headers += [(f"Impersonate-Extra-{quote(str(key), safe=_HEADER_CHARACTERS)}", str(value)) for value in values]
    return tuple(headers)


def _credentials(
    config: Kubeconfig, context: str, cluster: KubeconfigEntry, user: KubeconfigEntry | None, tls: ssl.SSLContext | None
) -> Credentials:
    if user is None:
        return Credentials()
    if path := user.path("tokenFile"):
        return TokenFile(path)
    if token := user.text("token"):
        return Credentials(f"Bearer {token}")
    if "exec" in user.fields:
        run = exec_plugin(str(user), user.fields["exec"], user.file.parent, _with_authority_data(cluster))
        return PluginCredentials(run, tls)
    if "auth-provider" in user.fields:
        name = str(user.fields["auth-provider"].get("name"))
        return PluginCredentials(auth_provider(str(user), name, config.paths, context), tls)
    if user.text("username"):
        pair = f"{user.text('username')}:{user.text('password')}"
        return Credentials(f"Basic {base64.b64encode(pair.encode()).decode()}")
    return Credentials()


def _with_authority_data(cluster: KubeconfigEntry) -> dict[str, Any]:
    """The cluster as plugins read it: the certificate authority as data, never as a file."""
    fields = {name: value for name, value in cluster.fields.items() if name != "certificate-authority"}
    authority = cluster.content("certificate-authority")
    return fields | ({"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {})


class _NamedServerContext(ssl.SSLContext):
    """Asks for, and verifies, the certificate of `server_name` whatever host the connection goes to."""

    server_name: str

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name, session)


def _tls(cluster: KubeconfigEntry, user: KubeconfigEntry | None) -> ssl.SSLContext:
    context = _verifying(cluster)
    if cluster.fields.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if user is not None:
        certificate, key = user.content("client-certificate"), user.content("client-key")
        if certificate and key:
            load_client_certificate(context, certificate + b"\n" + key)
    return context


def _verifying(cluster: KubeconfigEntry) -> ssl.SSLContext:
    authority = cluster.content("certificate-authority")
    try:
        data = authority.decode() if authority else None
        if not cluster.text("tls-server-name"):
            return ssl.create_default_context(cadata=data)
        context = _NamedServerContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificate and host name
        context.server_name = cluster.text("tls-server-name")
        if data:
            context.load_verify_locations(cadata=data)
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{cluster}: certificate-authority is not PEM: {error}") from error
    return context
