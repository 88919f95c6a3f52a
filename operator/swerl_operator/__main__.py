"""`python -m swerl_operator`: command line of the operator. Every option has an environment default SWERL_<OPTION>."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import socket
import sys
import uuid
from collections.abc import Sequence

from swerl_api.base import LOG_FORMATS
from swerl_kube import Json, KubeError
from swerl_kube.logs import LogSettings
from swerl_plan.capacity import CHECKS

from .app import run
from .checks.prerequisites import HOST_PATHS
from .context import Settings
from .errors import OperatorError


def parse_settings(arguments: list[str], environment: dict[str, str]) -> Settings:
    """Settings from the command line, else from SWERL_* variables, else the defaults; exits with 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="swerl-operator", description="Kubernetes operator of SWE-RL.")
    defaults = Settings()

    def option(name: str, default: object, text: str, choices: Sequence[str] | None = None) -> None:
        variable = "SWERL_" + name.upper().replace("-", "_")
        value = environment.get(variable, default)
        parser.add_argument(
            f"--{name}", default=value, type=type(default), choices=choices, help=f"{text} (${variable})"
        )

    option("namespaces", "", "comma-separated namespaces to serve; empty means all")
    option("driver-cluster-role", defaults.driver_cluster_role, "ClusterRole bound to drivers")
    option("lease-namespace", defaults.lease_namespace, "namespace of the leader Lease")
    option("lease-name", defaults.lease_name, "name of the leader Lease")
    option("identity", f"{socket.gethostname()}-{uuid.uuid4().hex[:6]}", "holder name of this process in the Lease")
    option("health-port", defaults.health_port, "port of /livez and /readyz")
    option("metrics-port", defaults.metrics_port, "port of /metrics")
    option("metrics-peers", "", "JSON list of NetworkPolicyPeers that may read the metrics of Ray Pods")
    option("host-path-volumes", defaults.host_path_volumes, "allow: hostPath outputs are accepted", HOST_PATHS)
    option("job-workers", defaults.job_workers, "SweRLJobs reconciled at once")
    option("sandbox-workers", defaults.sandbox_workers, "SweSandboxes reconciled at once")
    option("sandbox-limit", defaults.sandbox_limit, "sandboxes of all jobs together, fair between jobs; 0: no limit")
    option("sandbox-host-users", "", "false: each sandbox has a user namespace; true: none has; empty: cluster default")
    option("sandbox-priority-class", "", "PriorityClass of sandbox Pods")
    option("sandbox-pod-overrides", "", "JSON object merged into the spec of every sandbox Pod, e.g. schedulerName")
    option("sandbox-internet-name-servers", "", "comma-separated name servers of sandboxes with egress internet")
    option("sandbox-internet-except", "", "comma-separated CIDRs that sandboxes with egress internet do not reach")
    option("capacity-check", defaults.capacity_check, "what to do about jobs too large for the nodes", CHECKS)
    option("log-level", defaults.log_level, "DEBUG, INFO, WARNING or ERROR")
    option("log-format", defaults.log_format, "lines of text, or a JSON object per line", LOG_FORMATS)
    values = vars(parser.parse_args(arguments))
    names = tuple(filter(None, values.pop("namespaces").split(",")))
    peers = _peers(parser, values.pop("metrics_peers"))
    return Settings(namespaces=names, metrics_peers=peers, **values)


def _peers(parser: argparse.ArgumentParser, text: str) -> tuple[Json, ...]:
    """NetworkPolicyPeers from JSON."""
    try:
        found = json.loads(text or "[]")
    except ValueError as error:
        parser.error(f"--metrics-peers: {text!r} is not JSON: {error}")
    if not isinstance(found, list) or not all(isinstance(peer, dict) for peer in found):
        parser.error(f"--metrics-peers: {text!r} is not a JSON list of NetworkPolicyPeers")
    return tuple(found)


def main() -> None:
    """Run the operator; exit code 1 and one line with the reason after an error."""
    settings = parse_settings(sys.argv[1:], dict(os.environ))
    LogSettings(settings.log_format).configure(sys.stderr, settings.log_level)
    if settings.log_level != "DEBUG":
        logging.getLogger("kopf.objects").setLevel("WARNING")  # else one line per event of every sandbox
    try:
        asyncio.run(run(settings))
    except (OperatorError, KubeError) as error:
        logging.getLogger("swerl_operator").error("stopping: %s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
