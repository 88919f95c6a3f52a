"""The address of this side that a sandbox must not reach."""

from __future__ import annotations

import pytest
from swerl_api.isolation import own_address


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443"])
def test_loopback_interface_has_no_address_for_others(server: str) -> None:
    assert own_address(server) is None


def test_unresolvable_server_is_unreachable() -> None:
    with pytest.raises(OSError):
        own_address("https://nowhere.invalid")
