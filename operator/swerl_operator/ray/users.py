"""The user that containers run as. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swerl_api.pod_security import DEFAULT_USER, ROOT_USER
from swerl_api.pods import PodSettings
from swerl_kube import Json


def containers_user(pods: PodSettings, volumes: Iterable[Json], *, rdma: bool = False) -> int:
    """User of the containers of Pods with these volumes.

    Where none is given, it is root only for what only root can do: write a folder of the node, or lock memory for RDMA
    (of another user, the kernel gives a program no added capability).
    """
    if pods.run_as_user is not None:
        return pods.run_as_user
    return ROOT_USER if rdma or any("hostPath" in volume for volume in volumes) else DEFAULT_USER
