"""An API server that does not answer is named once, after a few seconds."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from swerl_kube import ClientOptions, ClusterConfig, Credentials, KubeClient, Unreachable, unanswered

from tests.kubeconfig import write_kubeconfig


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Accepts connections and never answers."""
    server = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def test_silent_server_is_one_line_for_all_its_clients(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unanswered.UnansweredNotice.__init__, "__defaults__", (0.2,))
    options = ClientOptions(call_timeout=0.5, read_retries=1)

    async def ask(server: str) -> None:
        async with KubeClient(ClusterConfig(server, "n", None, Credentials()), options) as client:
            with pytest.raises(Unreachable):
                await client.get("v1", "pods", "n", "p")

    async with silent_server() as server:
        await asyncio.gather(ask(server), ask(server))
    (line,) = caplog.messages
    assert line.startswith(f"no answer from the API server {server} for 0 s (GET /api/v1/namespaces/n/pods/p)")


async def test_answer_ends_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    notice = unanswered.UnansweredNotice("https://quick:6443", 0.1)
    notice.request_sent("GET /version")
    notice.answered()
    await asyncio.sleep(0.3)
    assert not caplog.messages
    notice.request_sent("GET /version")
    await asyncio.sleep(0.3)
    notice.stop()
    assert len(caplog.messages) == 1


def test_command_says_so_after_5_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server)
        command = [sys.executable, "-m", "swerl_agent.cli", "describe", "job", "--kubeconfig", kubeconfig]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as program:
            assert program.stderr is not None
            listener.settimeout(60)
            connection, _ = listener.accept()  # and never answer
            connected = time.monotonic()
            with connection:
                line = program.stderr.readline()
                seconds = time.monotonic() - connected
                program.terminate()
                rest = program.stderr.read()
    assert 4.5 < seconds < 7, line + rest
    assert line.startswith(f"swerl: no answer from the API server {server} for 5 s (GET /") and "check the add" in line
    assert "no answer" not in rest and program.returncode == 143
