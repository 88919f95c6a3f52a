"""The address of this side that a sandbox must not reach."""

from __future__ import annotations

import pytest
from swerl_api.isolation import own_address, private_targets


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443"])
def test_loopback_interface_has_no_address_for_others(server: str) -> None:
    assert own_address(server) is None


def test_unresolvable_server_is_unreachable() -> None:
    with pytest.raises(OSError):
        own_address("https://nowhere.invalid")


def test_targets_that_egress_internet_may_reach_are_left_out() -> None:
    closed = [("10.0.0.1", 443), ("169.254.169.254", 80), ("fd00::1", 443), ("100.64.0.1", 443)]
    assert private_targets([*closed, ("34.1.2.3", 443), ("api.example.com", 443)]) == closed
