"""What runs: components, node, add-ons, where to push and pull."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from cluster import addons, components, layout, lifecycle, process
from cluster.api import Unreachable
from cluster.layout import Cluster

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Component:
    name: str
    pid: int | None  # None: not running
    seconds: float  # since it started
    resident_mib: float


@dataclass(frozen=True)
class ClusterStatus:
    name: str
    state: str
    kubeconfig: str
    server: str
    push: str  # where images are pushed on this machine
    pull: str  # what image references begin with
    components: list[Component]
    node_ready: bool
    addons: dict[str, bool]  # Deployment -> available

    @property
    def healthy(self) -> bool:
        return self.node_ready and all(self.addons.values()) and all(each.pid for each in self.components)


def snapshot(cluster: Cluster) -> ClusterStatus:
    """A snapshot; an apiserver that does not answer counts as a node that is not Ready."""
    return ClusterStatus(
        cluster.name,
        str(cluster.state),
        str(cluster.kubeconfig),
        cluster.server,
        f"127.0.0.1:{cluster.registry_port}",
        layout.REGISTRY_NAME,
        [_component(cluster, name) for name in components.ALL],
        _is_true(lambda: lifecycle.node_ready(cluster)),
        {name: _is_true(partial(lifecycle.available, cluster, where, name)) for where, name in addons.applied(cluster)},
    )


def format_text(status: ClusterStatus) -> str:
    """The snapshot for people."""
    health = "healthy" if status.healthy else f"NOT healthy: run `{layout.make_command('cluster', status.name)}`"
    lines = [
        f"cluster {status.name}   {status.server}   {health}",
        f"  {'component':<20}{'pid':>8}{'up':>10}{'resident':>12}",
    ]
    for each in status.components:
        if each.pid:
            lines.append(
                f"  {each.name:<20}{each.pid:>8}{_format_duration(each.seconds):>10}{each.resident_mib:>8.0f} MiB"
            )
        else:
            lines.append(f"  {each.name:<20}{'stopped':>8}")
    lines.append(f"  {'node ' + layout.NODE_NAME:<20}{'Ready' if status.node_ready else 'not Ready':>8}")
    lines += [f"  {name:<20}{'available' if up else 'missing':>8}" for name, up in status.addons.items()]
    return "\n".join(
        [
            *lines,
            f"  push images to   {status.push}   (in manifests: {status.pull}/...)",
            f"  kubeconfig       {status.kubeconfig}",
        ]
    )


def format_json(status: ClusterStatus) -> str:
    return json.dumps({**asdict(status), "healthy": status.healthy}, indent=2)


def _component(cluster: Cluster, name: str) -> Component:
    record = process.running(cluster, name)
    if record is None:
        return Component(name, None, 0.0, 0.0)
    resident = int(Path(f"/proc/{record.pid}/statm").read_text().split()[1]) * _PAGE / 2**20
    return Component(name, record.pid, time.clock_gettime(time.CLOCK_BOOTTIME) - int(record.started) / _TICKS, resident)


def _is_true(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (Unreachable, OSError):
        return False


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
