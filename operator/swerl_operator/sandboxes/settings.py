"""All settings of the sandbox controller."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass, field
from typing import Any

from swerl_plan.pods import SANDBOX_REQUESTS

from ..context import Settings
from ..errors import OperatorError

MAX_NAME_SERVERS = 3  # of a Pod
MIN_PREFIX = 4  # of a network; a larger one would leave nothing of the global addresses of IPv6


@dataclass(frozen=True)
class SandboxSettings:
    """Times are in seconds."""

    workers: int = Settings.sandbox_workers
    """Groups reconciled at once; one group is only ever reconciled by one worker."""

    max_concurrent: int | None = None
    """Sandboxes of all jobs together, admitted fairly between jobs; None: no limit but the jobs' own."""

    start_window: int = 8
    """Pods of one job that may be starting at once while the pace of the nodes is unknown; the window's minimum."""

    max_start_window: int = 512
    """Maximum of that window."""

    slot_timeout: float = 4.0
    """A Pod not ready after this long (it may pull an image) no longer occupies a slot of the window."""

    image_pull_timeout: float = 30.0
    """How long an image pull may fail, with the kubelet's back-offs, before the Pod is deleted."""

    rejection_timeout: float = 30.0
    """How long a refused Pod creation (HTTP 403 other than quota) is retried before the group fails."""

    termination_timeout: float = 60.0
    """A Pod that is still terminating after this long has lost its node; it is deleted by force."""

    node_timeout: int = 60
    """A Pod whose node has been unreachable for this long is deleted (`tolerationSeconds`)."""

    finished_ttl: float = 60.0
    """A finished group is deleted after this long, if its client has not done so."""

    lease_poll: float = 5.0
    """A driver's Lease is read again after at most this long (at most a third of its duration)."""

    missing_lease_timeout: float = 50.0
    """A group whose Lease does not exist is kept for this long after its creation. Its driver may have died before it
    created the Lease; then, too, the group is gone within a minute."""

    stale_lease_grace: float = 15.0
    """A Lease that already looks expired when first read, or after a gap in reading, has this long to be renewed: the
    clocks of driver and operator may differ, and a driver cannot renew while the API server is unavailable."""

    admitted_delay: float = 5.0
    """Status: how long an admission may wait for other changes to write with it."""

    lost_delay: float = 2.0
    """Status: how long a lost Pod may wait for more of its kind."""

    queued_delay: float = 300.0
    """Status: how long an admitted group may wait for its first Pod before that is written. The groups of a big batch
    queue for their job's nodes; this saves one write for most of them."""

    waiting_delay: float = 10.0
    """Status: a reason for waiting is written once it has lasted this long."""

    counts_delay: float = 10.0
    """Status: changes of counts alone are written at most this often."""

    usage_delay: float = 300.0
    """Status: CPU-seconds that no other change took along are written on their own, once for a group, after this long;
    never for a group that has used up its share of writes."""

    completed_delay: float = 3.0
    """Status: a completed group is normally deleted by its client within this long, and then never written."""

    write_interval: float = 0.5
    """Status: least time between two writes of one group."""

    resync: float = 600.0
    """Groups and Pods are listed this often, to notice deletions without a watch event."""

    usage_period: float = 60.0
    """CPU usage of the sandboxes is sampled this often, one request for all of them."""

    usage_recheck: float = 600.0
    """A cluster without metrics API is checked again after this long."""

    reconcile_retry: tuple[float, float] = (0.5, 60.0)
    """First and longest delay until a failed reconciliation is retried."""

    list_retry: float = 2.0
    """A failed list is retried after this long."""

    watch_reopen: float = 0.1
    """A watch that ended is opened again after this long."""

    watch_retry: float = 0.9
    """A watch that failed waits this much longer."""

    events_retry: float = 5.0
    """A watch of Events that failed is opened again after this long."""

    lease_check_period: float = 0.5
    """How often the operator checks which Leases are due to be read."""

    refused_retry: float = 2.0
    """A refused Pod creation is retried after this long."""

    isolation_retry: float = 0.5
    """A failed isolation check is repeated after this long, then with doubling delays."""

    policy_recheck: float = 60.0
    """The NetworkPolicy of a namespace in use is verified this often."""

    host_users: bool | None = None
    """Pods' `hostUsers`; False gives each sandbox a user namespace; None leaves the field out."""

    priority_class_name: str | None = None
    """PriorityClass of sandbox Pods."""

    default_requests: dict[str, str] = field(default_factory=lambda: dict(SANDBOX_REQUESTS))
    """Requests of resources that the group's spec names neither in requests nor in limits."""

    default_limits: dict[str, str] = field(
        default_factory=lambda: {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "4Gi"}
    )
    """Limits of resources without one in the group's spec; a request that is more is the limit itself."""

    extra_capabilities: tuple[str, ...] = ()
    """Linux capabilities on top of those a root image needs to use package tools and git."""

    internet_name_servers: tuple[str, ...] = ("1.1.1.1", "8.8.8.8", "2606:4700:4700::1111")
    """Addresses of the name servers of sandboxes with egress internet."""

    internet_except: tuple[str, ...] = ()
    """CIDRs that sandboxes with egress internet do not reach, beside those that the operator finds."""

    pod_overrides: dict[str, Any] = field(default_factory=dict)
    """Fields merged into every Pod spec last, for fields without a setting of their own, e.g. `schedulerName`."""

    @classmethod
    def from_options(cls, options: Settings) -> SandboxSettings:
        """The settings that the command line sets; raises OperatorError with the name of an invalid option."""
        return cls(
            workers=options.sandbox_workers,
            max_concurrent=options.sandbox_limit or None,
            host_users=_optional_bool("sandbox-host-users", options.sandbox_host_users),
            priority_class_name=options.sandbox_priority_class or None,
            internet_name_servers=_name_servers("sandbox-internet-name-servers", options.sandbox_internet_name_servers),
            internet_except=_networks("sandbox-internet-except", options.sandbox_internet_except),
            pod_overrides=_object("sandbox-pod-overrides", options.sandbox_pod_overrides),
        )


def _optional_bool(option: str, text: str) -> bool | None:
    if text not in ("", "true", "false"):
        raise OperatorError(f"--{option}={text}: give true, false or nothing")
    return text == "true" if text else None


def _name_servers(option: str, text: str) -> tuple[str, ...]:
    found = _split(text) or SandboxSettings.internet_name_servers
    for server in found:
        try:
            ipaddress.ip_address(server)
        except ValueError:
            raise OperatorError(f"--{option}: {server!r} is not an IP address") from None
    if len(found) > MAX_NAME_SERVERS:
        raise OperatorError(f"--{option}: a Pod has at most {MAX_NAME_SERVERS} name servers, not {len(found)}")
    return found


def _networks(option: str, text: str) -> tuple[str, ...]:
    for cidr in _split(text):
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            raise OperatorError(f"--{option}: {cidr!r} is not a network such as 203.0.113.0/24: {error}") from None
        if network.prefixlen < MIN_PREFIX:
            raise OperatorError(f"--{option}: {cidr} is too large; egress none closes everything")
    return _split(text)


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise OperatorError(f"--{option}: {text!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise OperatorError(f'--{option}: {text!r} is not a JSON object such as {{"schedulerName": "mine"}}')
    return found
