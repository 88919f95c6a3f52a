"""A kubeconfig for servers that tests start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_kubeconfig(path: Path, server: str, *, namespace: str = "n", user: dict[str, Any] | None = None) -> str:
    """Write one for the URL `server` to `path`, which is returned; `user`: its credentials, by default a token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else user}],
    }
    path.write_text(json.dumps(document))
    return str(path)
