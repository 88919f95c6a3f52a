"""Every figure of the sandbox plane, in one place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ..context import Settings
from ..errors import OperatorError


@dataclass(frozen=True)
class SandboxSettings:
    """Times are in seconds."""

    workers: int = 8
    """Groups reconciled at once; one group is only ever reconciled by one worker."""

    max_concurrent: int | None = None
    """Sandboxes of all jobs together, admitted fairly between jobs; None: no limit but the jobs' own."""

    wave: int = 8
    """Pods of one job that may be starting at once before anything is known of the nodes; the floor of the window."""

    wave_limit: int = 512
    """Ceiling of that window."""

    slow_start: float = 4.0
    """A Pod not ready after this long (it pulls an image, say) no longer holds a place in the window."""

    image_patience: float = 30.0
    """How long a failing image pull may go on, with the kubelet's back-offs, before the Pod is given up."""

    reject_patience: float = 30.0
    """How long a refused Pod creation (HTTP 403 other than quota) is tried again before the group is given up."""

    terminating_patience: float = 60.0
    """A Pod that is still terminating after this long has lost its node; it is removed by force."""

    node_patience: int = 60
    """A Pod whose node has not answered for this long, after the cluster noticed, is given up (`tolerationSeconds`)."""

    finished_ttl: float = 60.0
    """A finished group is deleted after this long, if its client has not done so."""

    lease_poll: float = 5.0
    """A driver's Lease is read again after at most this long (at most a third of its duration)."""

    lease_missing: float = 50.0
    """A group whose Lease does not exist is kept for this long after its creation: its driver may have died before it
    made one, and then, too, all is gone within a minute."""

    lease_stale_patience: float = 15.0
    """A Lease that already looks expired when first read, or after a gap in reading, gets this long to be renewed: the
    clocks of driver and operator may differ, and a driver cannot renew while the API server is away."""

    admitted_delay: float = 5.0
    """Status: how long an admission may wait for news worth the same write."""

    lost_delay: float = 2.0
    """Status: how long the news of a lost Pod may wait for more of its kind."""

    queued_delay: float = 300.0
    """Status: how long an admitted group may wait for its first Pod before that is worth a write: the groups of a big
    batch stand in line for their job's nodes, which is one write the less for most of them."""

    waiting_delay: float = 10.0
    """Status: a reason for waiting is written once it has lasted this long."""

    counts_delay: float = 10.0
    """Status: changes of counts alone are written at most this often."""

    usage_delay: float = 300.0
    """Status: CPU-seconds that no other news took along are written alone, once for a group, after this long; never for
    a group that has had its share of writes, one whose start was slow."""

    completed_delay: float = 3.0
    """Status: a completed group is normally deleted by its client within this long, and then never written."""

    write_interval: float = 0.5
    """Status: least time between two writes of one group."""

    resync: float = 600.0
    """Groups and Pods are listed this often, to notice deletions that no watch event told of."""

    usage_period: float = 60.0
    """CPU usage of the sandboxes is sampled this often, one request for all of them."""

    usage_absent: float = 600.0
    """A cluster without metrics API is asked again after this long."""

    policy_recheck: float = 60.0
    """The NetworkPolicy of a namespace in use is verified this often."""

    host_users: bool | None = None
    """Pods' `hostUsers`; False gives each sandbox a user namespace; None leaves the field out."""

    priority_class_name: str | None = None
    """PriorityClass of sandbox Pods."""

    default_requests: dict[str, str] = field(
        default_factory=lambda: {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "128Mi"}
    )
    """Requests of resources that the group's spec names neither in requests nor in limits."""

    default_limits: dict[str, str] = field(
        default_factory=lambda: {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "4Gi"}
    )
    """Limits of resources without one in the group's spec; a request that is more is the limit itself."""

    extra_capabilities: tuple[str, ...] = ()
    """Linux capabilities on top of those a root image needs to use package tools and git."""

    pod_overrides: dict[str, Any] = field(default_factory=dict)
    """Fields merged into every Pod spec last, for what this version does not know, e.g. `schedulerName`."""

    @classmethod
    def asked(cls, asked: Settings) -> SandboxSettings:
        """What the command line asks for; raises OperatorError naming the option that cannot be read."""
        return cls(
            workers=asked.sandbox_workers,
            max_concurrent=asked.sandbox_limit or None,
            host_users=_switch("sandbox-host-users", asked.sandbox_host_users),
            priority_class_name=asked.sandbox_priority_class or None,
            pod_overrides=_object("sandbox-pod-overrides", asked.sandbox_pod_overrides),
        )


def _switch(option: str, text: str) -> bool | None:
    if text not in ("", "true", "false"):
        raise OperatorError(f"--{option}={text}: give true, false or nothing")
    return text == "true" if text else None


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise OperatorError(f"--{option}: {text!r} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise OperatorError(f'--{option}: {text!r} is no JSON object, as {{"schedulerName": "mine"}} is')
    return found
