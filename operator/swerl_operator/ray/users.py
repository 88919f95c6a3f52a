"""The user that containers run as. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from swerl_api import pod_security
from swerl_api.pods import PodSettings
from swerl_kube import Json


def containers_user(pods: PodSettings, volumes: Iterable[Json], *, rdma: bool = False) -> int:
    """User of the containers of Pods with these volumes.

    Where none is given, it is root only for what only root can do: write a folder of the node, or lock memory for RDMA
    (of another user, the kernel gives a program no added capability).
    """
    needs_root = rdma or any("hostPath" in volume for volume in volumes)
    return pod_security.containers_user(pods.run_as_user, needs_root=needs_root)
