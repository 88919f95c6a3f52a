"""`swerl serve` as a process, before an API server that knows Leases and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.kubeconfig import write_kubeconfig
from tests.unit.agent.episode.conftest import PLAIN, make_tokenizer

from .conftest import ENGINE, body


class Api:
    """Counts what is done to Leases; everything else is unavailable."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def lease(self, request: web.Request) -> web.Response:
        self.calls.append(request.method)
        if request.method == "PATCH" and "POST" not in self.calls:
            return web.json_response({"kind": "Status", "reason": "NotFound", "message": "none"}, status=404)
        return web.json_response({"metadata": {"resourceVersion": "1", "uid": "u"}})

    async def forbidden(self, request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "not here"}, status=403)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """It, named by the kubeconfig in the test's folder."""
    api, app = Api(), web.Application()
    app.router.add_route("*", "/apis/coordination.k8s.io/v1/{rest:.*}", api.lease)
    app.router.add_route("*", "/{rest:.*}", api.forbidden)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{runner.addresses[0][1]}")
    yield api
    await runner.cleanup()


async def test_server_runs_until_a_signal_and_releases_its_lease(api: Api, tmp_path: Path) -> None:
    folder = make_tokenizer(tmp_path / "tokenizer", PLAIN)
    command = ["serve", "--port", "0", "--tokenizer", str(folder), "--kubeconfig", str(tmp_path / "kubeconfig")]
    command += ["--allow-engine", ENGINE, "--log-format", "json"]
    # with CI set, transformers sends its lines to the root logger too
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "CI": "true"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "swerl_agent.cli", *command, cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr
        line = json.loads(await process.stderr.readline())
        assert (line["job"], line["level"]) == ("swerl-serve", "info")
        url = line["message"].split()[-1]
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{url}/health") as answer:
                assert (answer.status, await answer.json()) == (200, {"status": "ok"})
            async with http.post(f"{url}/run", json=body()) as answer:
                assert (answer.status, (await answer.json())["info"]["exit_status"]) == (503, "infrastructure_error")
            assert "DELETE" not in api.calls
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
    assert api.calls[:2] == ["PATCH", "POST"]
    assert api.calls[-1] == "DELETE"
