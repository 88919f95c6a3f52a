"""The settings and shared objects of the operator's controllers, and how a controller registers.

A controller is a package with `register(registry, context)`: it adds kopf handlers to `registry` (on.event and index
only: no annotations, no finalizers) and its loops to `context.background`. Controllers run only while this
process is leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from swerl_api.base import LogFormat
from swerl_kube import Json, KubeClient

from .metrics import Metrics


@dataclass(frozen=True)
class Settings:
    """All options of the command line and its environment defaults, read once."""

    namespaces: tuple[str, ...] = ()  # namespaces served; empty means all
    driver_cluster_role: str = "swe-rl-driver"  # ClusterRole bound to the driver's ServiceAccount
    lease_namespace: str = "default"  # where the leader Lease lives
    lease_name: str = "swe-rl-operator"
    identity: str = "swe-rl-operator"  # holder name in the Lease, unique per process
    health_port: int = 8080
    metrics_port: int = 9090
    metrics_peers: tuple[Json, ...] = ()  # NetworkPolicyPeers that may read the metrics of Ray Pods
    host_path_volumes: str = "refuse"  # "allow": outputs may be folders of the nodes
    job_workers: int = 4  # SweRLJobs reconciled at once
    sandbox_workers: int = 8  # SweSandboxes reconciled at once
    sandbox_limit: int = 0  # sandboxes of all jobs together; 0: no limit
    sandbox_host_users: str = ""  # "false": a user namespace per sandbox; "true"; empty: the cluster's default
    sandbox_priority_class: str = ""  # PriorityClass of sandbox Pods
    sandbox_pod_overrides: str = ""  # JSON object merged into every sandbox Pod's spec last
    sandbox_internet_name_servers: str = ""  # comma-separated addresses, for egress internet; empty: public ones
    sandbox_internet_except: str = ""  # comma-separated CIDRs that egress internet does not open
    capacity_check: str = "auto"  # see checks.capacity.apply_capacity_check
    log_level: str = "INFO"
    log_format: LogFormat = "json"


@dataclass
class OperatorContext:
    """What the controllers share."""

    settings: Settings
    api: KubeClient
    metrics: Metrics
    is_leader: Callable[[], bool] = lambda: True
    """Whether this process still leads; after it has lost its Lease it writes nothing."""
    background: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """Loops that run until cancelled, by name; one that ends or fails stops the operator, which then restarts."""

    def run_forever(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Add a background loop; call it from `register`."""
        if name in self.background:
            raise ValueError(f"two background loops are named {name!r}")
        self.background[name] = loop
