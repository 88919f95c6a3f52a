"""Logins at registries, in the format of Docker's config.json and of Kubernetes' image pull Secrets."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .reference import DOCKER_HUB, HUB_NAMES


class CredentialError(ValueError):
    """A file of logins that cannot be read."""


@dataclass(frozen=True)
class RegistryCredentials:
    """User and password at one registry."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """The value of an Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def read_credentials(path: Path) -> dict[str, RegistryCredentials]:
    """Credentials by registry, from the `auths` of a config.json or `.dockerconfigjson`; raises CredentialError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CredentialError(f"{path}: cannot be read as JSON: {error}") from error
    logins = content.get("auths") if isinstance(content, dict) else None
    if not isinstance(logins or {}, dict):
        raise CredentialError(f"{path}: field auths must be an object by registry")
    found = {_registry(key): _credentials(login, f"{path}: auths[{key!r}]") for key, login in (logins or {}).items()}
    return {registry: login for registry, login in found.items() if login}


def _registry(key: str) -> str:
    """The registry of a key such as `https://index.docker.io/v1/`."""
    host = key.partition("://")[2] or key
    host = host.partition("/")[0]
    return DOCKER_HUB if host in HUB_NAMES else host


def _credentials(login: Any, where: str) -> RegistryCredentials | None:
    """None where a credential helper holds the password."""
    if not isinstance(login, Mapping):
        raise CredentialError(f"{where} must be an object")
    if login.get("username") and login.get("password"):
        return RegistryCredentials(str(login["username"]), str(login["password"]))
    try:
        user, colon, password = base64.b64decode(str(login.get("auth") or ""), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CredentialError(f"{where}: field auth is not base64 of user:password") from error
    return RegistryCredentials(user, password) if colon else None
