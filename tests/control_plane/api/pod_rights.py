"""What a Pod of an author's objects may have without the chart's value hostPathVolumes=allow. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swerl_api.quantity import parse_quantity
from swerl_api.swesandbox import CAPABILITIES

Json = dict[str, Any]


def excess_rights(spec: Json, role: str, annotations: Json | None = None) -> list[str]:
    """What the Pod `spec` of a Pod with this role, as it was created, has beyond that."""
    unconfined = [name for name, value in (annotations or {}).items() if "apparmor" in name and value == "unconfined"]
    return [*_of_pod(spec, role), *unconfined, *(found for each in _containers(spec) for found in _of(each, role))]


def _of_pod(spec: Json, role: str) -> Iterator[str]:
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    token = spec.get("automountServiceAccountToken", True)
    if token and role not in ("driver", "shard", "merge"):
        yield "token"
    if spec.get("nodeName") and role != "pull":
        yield f"node {spec['nodeName']}"
    for volume in spec.get("volumes", []):
        sources = volume.get("projected", {}).get("sources", [])
        if "hostPath" in volume or (not token and any("serviceAccountToken" in source for source in sources)):
            yield f"volume {volume}"
        if role == "sandbox" and ("secret" in volume or any("secret" in source for source in sources)):
            yield f"Secret of a sandbox {volume}"
    security = spec.get("securityContext") or {}
    yield from (f"securityContext {name}" for name in ("sysctls",) if security.get(name))
    yield from _profiles(security)


def _containers(spec: Json) -> Iterator[Json]:
    yield from (*spec.get("initContainers", []), *spec.get("containers", []), *spec.get("ephemeralContainers", []))


def _of(container: Json, role: str) -> Iterator[str]:
    security = container.get("securityContext") or {}
    capabilities = security.get("capabilities") or {}
    yield from _profiles(security)
    if security.get("privileged") or security.get("allowPrivilegeEscalation") is not False:
        yield f"privilege {security}"
    if security.get("procMount", "Default") != "Default" or "ALL" not in capabilities.get("drop", []):
        yield f"privilege {security}"
    allowed = CAPABILITIES if role == "sandbox" else ("IPC_LOCK",) if _has_rdma(container) else ()
    yield from (f"capability {name}" for name in capabilities.get("add", []) if name not in allowed)
    yield from (f"port {port}" for port in container.get("ports", []) if port.get("hostPort"))
    yield from (f"device {device}" for device in container.get("volumeDevices", []))
    if role == "sandbox" and (container.get("envFrom") or any("valueFrom" in each for each in container["env"])):
        yield "environment of a sandbox from other objects"


def _has_rdma(container: Json) -> bool:
    limits = container.get("resources", {}).get("limits", {})
    return any("rdma" in name and parse_quantity(amount) > 0 for name, amount in limits.items())


def _profiles(security: Json) -> Iterator[str]:
    for name in ("seccompProfile", "appArmorProfile"):
        if (security.get(name) or {}).get("type") == "Unconfined":
            yield f"{name} Unconfined"
