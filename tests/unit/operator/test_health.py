"""Where the operator's HTTP servers listen."""

from __future__ import annotations

import aiohttp
import pytest
from swerl_api.addresses import url_host
from swerl_operator.health import serve_metrics
from swerl_operator.metrics import Metrics

from tests.ports import free_port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_metrics_are_served_over_both_families(host: str) -> None:
    port = free_port()
    async with (
        serve_metrics(Metrics(), port),
        aiohttp.ClientSession() as http,
        http.get(f"http://{url_host(host)}:{port}/metrics") as answer,
    ):
        assert answer.status == 200 and "swerl_" in await answer.text()
