"""Users and rights of the containers of jobs and evaluations. Pure.

Guarantees: containers get no privilege. Pods of root fit the Pod Security level `baseline`, those of another user
`restricted`, if their volumes and devices do.
"""

from __future__ import annotations

from typing import Any, Final

ROOT_USER: Final = 0
DEFAULT_USER: Final = 1000  # that of the trainer's image

# A container that runs as root may access only files it owns.
RESTRICTED: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def containers_user(chosen: int | None, *, needs_root: bool) -> int:
    """User of containers: the `chosen` one (`runAsUser`), else root where only root can do what they must."""
    if chosen is not None:
        return chosen
    return ROOT_USER if needs_root else DEFAULT_USER


def pod_security(user: int) -> dict[str, Any]:
    """The `securityContext` of a Pod whose containers run as `user` and the group of this number."""
    if user == ROOT_USER:
        return {"runAsUser": user, "runAsGroup": user}
    return {
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": True,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",  # a volume of many checkpoints is not walked at each start
        "seccompProfile": {"type": "RuntimeDefault"},
    }
