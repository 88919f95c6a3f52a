"""What the API server takes as a quantity the operator can compute with."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swerl_api.base import QUANTITY
from swerl_api.quantity import parse_quantity


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is slow
@given(st.from_regex(QUANTITY, fullmatch=True))
def test_accepted_quantities_are_numbers(text: str) -> None:
    assert parse_quantity(text) >= 0


@pytest.mark.parametrize("text", ["1", "0.5", ".5", "2.", "500m", "1Gi", "10k", "1e3", "1E-3", "3E"])
def test_quantities_written_by_kubernetes_are_accepted(text: str) -> None:
    assert re.search(QUANTITY, text)


@pytest.mark.parametrize("text", ["", "lots", "-1", "1.2.3", "1 Gi", "1gi", "1e", "Gi", "𧱮"])
def test_invalid_quantities_are_refused(text: str) -> None:
    assert not re.search(QUANTITY, text)
