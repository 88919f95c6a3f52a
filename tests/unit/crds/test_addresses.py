"""Hosts in URLs."""

from __future__ import annotations

import pytest
from swerl_api.addresses import url_host


@pytest.mark.parametrize(
    ("host", "in_url"),
    [("fd00::5", "[fd00::5]"), ("[fd00::5]", "[fd00::5]"), ("10.0.0.5", "10.0.0.5"), ("a.svc", "a.svc")],
)
def test_only_ipv6_addresses_get_brackets(host: str, in_url: str) -> None:
    assert url_host(host) == in_url
