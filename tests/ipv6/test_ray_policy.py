"""The policy of a job's Ray Pods over IPv6: the test of IPv4, with the Pods' other addresses."""

from __future__ import annotations

import pytest

from tests.control_plane.cluster.probe_namespace import ProbeNamespace
from tests.control_plane.cluster.test_ray_policy import targets as ipv4_targets
from tests.control_plane.cluster.test_ray_policy import test_only_those_who_need_a_port_reach_it
from tests.ipv6.conftest import addresses

__all__ = ["ipv4_targets", "test_only_those_who_need_a_port_reach_it"]


@pytest.fixture(scope="module")
def targets(ipv4_targets: dict[str, str], probes: ProbeNamespace) -> dict[str, str]:
    """The same ports of the same Pods."""
    other_address = dict(addresses(probes.get("pod", name)) for name in ("head", "open"))
    parts = {name: target.split(":") for name, target in ipv4_targets.items()}
    return {name: f"{kind}:[{other_address[ip]}]:{port}" for name, (kind, ip, port) in parts.items()}
