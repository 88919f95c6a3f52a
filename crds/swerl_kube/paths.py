"""URL paths of Kubernetes resources."""

from __future__ import annotations

from urllib.parse import quote


def resource_path(
    api: str, resource: str, namespace: str | None = None, name: str | None = None, subresource: str | None = None
) -> str:
    """`/api/v1/namespaces/x/pods/y/exec` and its like; `api` is `v1` or `group/version`, None leaves a part out."""
    parts = ["/api" if "/" not in api else "/apis", api]
    if namespace is not None:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource)
    parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
    return "/".join(parts)
