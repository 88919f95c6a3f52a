"""Daemons of a cluster: started detached, found again by pid and start time.

Guarantees: a recorded pid that now belongs to another process is never signalled; a daemon whose command line or
configuration has changed is replaced; each daemon is in the cluster's cgroup before its first instruction. A daemon
does not inherit ignored signals (`nohup`), since containers may inherit them in turn.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster import cgroups
from cluster.layout import Cluster

_LOG_LIMIT = 64 * 1024 * 1024  # bytes; a longer log is moved to <name>.log.1 at the next start


@dataclass(frozen=True)
class Daemon:
    """How one component is run."""

    name: str
    argv: tuple[str, ...]
    in_node: bool = True  # in the node's network namespace rather than the machine's
    inputs: tuple[Path, ...] = ()  # files read once at start
    env: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Changes when the daemon must be restarted to take effect."""
        digest = hashlib.sha256(repr((self.argv, sorted(self.env.items()))).encode())
        for path in self.inputs:
            digest.update(path.read_bytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class RunningDaemon:
    pid: int
    started: str  # start time in clock ticks since boot, as in /proc/<pid>/stat
    digest: str


def running(cluster: Cluster, name: str) -> RunningDaemon | None:
    """The living process of that daemon."""
    try:
        record = RunningDaemon(**json.loads(_record(cluster, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if _start_time(record.pid) == record.started else None


def ensure(cluster: Cluster, daemon: Daemon) -> bool:
    """Starts the daemon unless it runs as described; True when it was started."""
    current = running(cluster, daemon.name)
    if current and current.digest == daemon.digest():
        return False
    stop(cluster, daemon.name)
    _start(cluster, daemon)
    return True


def stop(cluster: Cluster, name: str, *, grace: float = 10.0) -> bool:
    """SIGTERM, and SIGKILL after `grace` seconds; True when it ran."""
    current = running(cluster, name)
    if current:
        _signal(current.pid, signal.SIGTERM)
        if not _wait_gone(current, grace):
            _signal(current.pid, signal.SIGKILL)
            _wait_gone(current, 10.0)
    _record(cluster, name).unlink(missing_ok=True)
    return current is not None


def log_file(cluster: Cluster, name: str) -> Path:
    return cluster.log / f"{name}.log"


def log_tail(cluster: Cluster, name: str, lines: int = 8) -> str:
    """Last lines of a daemon's log, for error messages."""
    with contextlib.suppress(OSError):
        return "\n".join(log_file(cluster, name).read_text(errors="replace").splitlines()[-lines:])
    return ""


def in_node(cluster: Cluster) -> tuple[str, ...]:
    """Command prefix that runs a program in the node's network namespace."""
    return ("nsenter", f"--net=/run/netns/{cluster.label}", "--")


def _start(cluster: Cluster, daemon: Daemon) -> None:
    log = log_file(cluster, daemon.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    prefix = in_node(cluster) if daemon.in_node else ()
    groups = " ".join(map(str, cgroups.daemons_files(cluster.label)))
    join = ("/bin/sh", "-ec", 'for group in $0; do echo $$ >"$group"; done; exec env --default-signal "$@"', groups)
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*join, *prefix, *daemon.argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **daemon.env},
            cwd="/",
            start_new_session=True,
        )
    record = _record(cluster, daemon.name)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"pid": child.pid, "started": _start_time(child.pid), "digest": daemon.digest()}))


def _record(cluster: Cluster, name: str) -> Path:
    return cluster.run / "daemons" / f"{name}.json"


def _start_time(pid: int) -> str | None:
    """None when there is no such process or it is a zombie."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] == "Z" else fields[19]
    return None


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _wait_gone(process: RunningDaemon, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if _start_time(process.pid) != process.started:
            return True
        time.sleep(0.02)
    return False
