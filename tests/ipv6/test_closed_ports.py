"""Ports of ours over IPv6: the test of IPv4, with the Pods' other addresses."""

from __future__ import annotations

import pytest

from tests.control_plane.cluster.probe_namespace import Json
from tests.control_plane.cluster.test_closed_ports import PORTS, serving, test_only_those_who_need_a_port_reach_it
from tests.ipv6.conftest import ipv6_address

__all__ = ["serving", "test_only_those_who_need_a_port_reach_it"]


@pytest.fixture(scope="module")
def targets(serving: Json) -> dict[str, str]:
    """The same ports of the same Pods."""
    return {name: f"tcp:[{ipv6_address(serving[pod])}]:{port}" for name, (pod, port) in PORTS.items()}
