"""URLs with an IPv6 address: the operator asks Ray and the router of a Pod, a sandbox asks the gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from swerl_agent.episode import ChatCompletions
from swerl_agent.gateway import Relay
from swerl_api import AgentSpec
from swerl_api.names import ROUTER_PORT
from swerl_operator.ray.cluster import DASHBOARD_PORT
from swerl_operator.ray.credentials import RayCredentials
from swerl_operator.ray.jobs import RayHead, RayJobs

from cluster.layout import Cluster
from tests.control_plane.sandboxes.conftest import User, inside
from tests.ipv6.conftest import ipv6_address, reached

ANSWERS = {"/workers": {"workers": [{"is_healthy": True}]}, "/api/jobs/run-1": {"status": "RUNNING"}}
SERVER = f"""
import http.server, json, socket, sys, threading
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({ANSWERS!r}[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
for port in {(DASHBOARD_PORT, ROUTER_PORT)!r}:
    threading.Thread(target=Server(("::", port), Handler).serve_forever).start()
"""
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


async def test_operator_reaches_the_head_and_its_router_at_an_ipv6_address(user: User) -> None:
    await user.declare("head", egress="allow", command=["python3", "-c", SERVER])
    await user.phase("head", "Ready")
    head = RayHead(ipv6_address((await user.pods("head"))["swesb-head-0"]), RayCredentials("token", "key"))
    async with RayJobs() as jobs:
        state = await jobs.driver(head, "run-1")
        assert (state.phase, state.message) == ("running", "")
        assert await jobs.ready_engines(head) == 1


@pytest.fixture
async def gateway(running: Cluster) -> AsyncIterator[Relay]:
    """A gateway on this machine at its IPv6 address; its engine is never asked."""
    async with (
        aiohttp.ClientSession() as session,
        Relay(
            ChatCompletions("http://127.0.0.1:9", session, model="policy"), host="::", address=running.host_ips[-1]
        ) as gateway,
    ):
        yield gateway


async def test_sandbox_reaches_the_gateway_at_its_ipv6_url_only_when_allowed(
    user: User, kubeconfig: str, running: Cluster, gateway: Relay
) -> None:
    for name, egress in (("agent", "allow"), ("closed", "none")):
        await user.declare(name, egress=egress)
        await user.phase(name, "Ready")
    assert gateway.url.startswith(f"http://[{running.host_ips[-1]}]:")
    with gateway.episode(AgentSpec(), routing_key="a", temperature=1.0) as (endpoint, _):
        url = f"{endpoint.base_url}/models"
        answer = await inside(kubeconfig, user.namespace, "swesb-agent-0", "python3", "-c", FETCH, url)
        assert [model["id"] for model in json.loads(answer)["data"]] == ["policy"]
        target = {"gateway": (running.host_ips[-1], int(gateway.url.rpartition(":")[2]))}
        assert await reached(kubeconfig, user.namespace, "swesb-closed-0", target) == set()
