"""What lies between client and API server: proxies that drop or swallow, credentials that change, readers that stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import ExecRefused, PodConnector, Session, SessionSettings
from swerl_kube import ClientOptions, Data, ExecChannel, KubeClient, Unauthorized

from tests.conftest import kubectl
from tests.control_plane.exec.conftest import connect
from tests.control_plane.exec.proxy import Proxy

if TYPE_CHECKING:
    from .conftest import Json

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"


async def runs_in(session: Session) -> bytes:
    """What `noted` commands have written; it needs a working session."""
    return await session.read_file("/tmp/runs")


def counted(command: str) -> str:
    return f"echo run >>/tmp/runs; {command}"


async def test_dropped_idle_connections_lose_nothing(kubeconfig: str, pod: Json, tmp_path: Path) -> None:
    async with Proxy(kubeconfig, idle=3) as proxy:
        config = proxy.write_kubeconfig(tmp_path / "config")
        async with KubeClient.from_environment(config) as client, Session(connect(client, pod)) as session:
            assert (await session.run(counted("echo one"), timeout=60)).stdout == b"one\n"
            await asyncio.sleep(5)
            assert proxy.dropped
            assert (await session.run(counted("echo two"), timeout=60)).stdout == b"two\n"
            result = await session.run(counted("sleep 8; echo three"), timeout=60)
            assert result.stdout == b"three\n" and result.duration < 20
            assert await runs_in(session) == b"run\n" * 3


async def test_keep_alive_frames_hold_an_idle_stream_open(kubeconfig: str, pod: Json, tmp_path: Path) -> None:
    settings = SessionSettings(keep_alive=1.0)
    async with Proxy(kubeconfig, idle=3) as proxy:
        config = proxy.write_kubeconfig(tmp_path / "config")
        async with (
            KubeClient.from_environment(config) as client,
            Session(connect(client, pod), settings=settings) as session,
        ):
            await session.open()
            await asyncio.sleep(6)
            assert (await session.run("sleep 6; echo on", timeout=60)).stdout == b"on\n"
            assert (proxy.connections, proxy.dropped) == (1, 0)


async def test_silent_connection_loss_is_detected_and_the_command_runs_once(
    kubeconfig: str, pod: Json, tmp_path: Path
) -> None:
    settings = SessionSettings(first_ping=1.0, next_ping=3.0, chunk_timeout=3.0)
    async with Proxy(kubeconfig) as proxy:
        config = proxy.write_kubeconfig(tmp_path / "config")
        async with (
            KubeClient.from_environment(config) as client,
            Session(connect(client, pod), settings=settings) as session,
        ):
            running = asyncio.create_task(session.run(counted("sleep 3; echo survived"), timeout=60))
            await asyncio.sleep(1.5)
            proxy.stall()
            assert (await asyncio.wait_for(running, 30)).stdout == b"survived\n"
            proxy.stall()  # no error follows: the session is idle
            started = time.monotonic()
            assert (await session.run(counted("echo next"), timeout=60)).stdout == b"next\n"
            assert time.monotonic() - started < 15
            proxy.stall()
            data = bytes(10 << 20)
            received = await session.run(counted("wc -c"), timeout=60, stdin=data)
            assert int(received.stdout) == len(data)
            assert await runs_in(session) == b"run\n" * 3


@pytest.mark.parametrize(
    ("offered", "protocol"), [([V4, V5], V4), ([V5, V4], V5), (["v9.channel.k8s.io", V4], V4), ([V5], V5)]
)
async def test_refused_protocol_falls_back_to_the_next(
    kubeconfig: str, pod: Json, offered: list[str], protocol: str
) -> None:
    options = ClientOptions(exec_protocols=tuple(offered))
    async with (
        KubeClient.from_environment(kubeconfig, options) as client,
        Session(connect(client, pod)) as session,
    ):
        result = await session.run(r"printf '\000\377'; cat >&2; exit 9", timeout=60, stdin=b"\0\xfe")
        assert (result.exit_code, result.stdout, result.stderr) == (9, b"\0\xff", b"\0\xfe")
        assert session._stream is not None
        assert getattr(session._stream.channel, "protocol", None) == protocol


class ServiceAccount:
    """A service account that may use one namespace's Pods; its tokens are bound to Secrets and die with them."""

    def __init__(self, kubeconfig: str, namespace: str, file: Path) -> None:
        self._kubeconfig, self._namespace, self._file = kubeconfig, namespace, file
        self._kubectl("create", "serviceaccount", "rotating")
        self._kubectl("create", "role", "rotating", "--verb=get,create", "--resource=pods,pods/exec")
        self._kubectl("create", "rolebinding", "rotating", "--role=rotating", f"--serviceaccount={namespace}:rotating")

    def _kubectl(self, *arguments: str) -> str:
        return kubectl(self._kubeconfig, "-n", self._namespace, *arguments)

    def token(self, secret: str) -> str:
        """A new token that is good as long as the Secret of that name."""
        self._kubectl("create", "secret", "generic", secret)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={secret}")
        return self._kubectl("create", "token", "rotating", *bound).strip()

    def grant(self, secret: str) -> None:
        """Put a new token where the client reads it."""
        self._file.write_text(self.token(secret))

    def revoke(self, secret: str) -> None:
        self._kubectl("delete", "secret", secret)


async def test_rotated_token_is_read_again(kubeconfig: str, namespace: str, pod: Json, tmp_path: Path) -> None:
    account = ServiceAccount(kubeconfig, namespace, tmp_path / "token")
    account.grant("first")
    async with Proxy(kubeconfig) as proxy:
        config = proxy.write_kubeconfig(tmp_path / "config", user={"tokenFile": str(tmp_path / "token")})
        async with KubeClient.from_environment(config) as client, Session(connect(client, pod)) as session:
            assert (await session.run(counted("echo one"), timeout=60)).stdout == b"one\n"
            account.revoke("first")
            await until_refused(client, namespace, pod)
            assert (await session.run(counted("echo two"), timeout=60)).stdout == b"two\n"  # an open stream lives on
            proxy.stall()
            assert session._stream is not None
            await session._stream.close()
            third = asyncio.create_task(session.run(counted("echo three"), timeout=60))
            await asyncio.sleep(3)
            assert not third.done()  # the old token is refused, and no new one is there yet
            account.grant("second")
            assert (await asyncio.wait_for(third, 90)).stdout == b"three\n"
            assert await runs_in(session) == b"run\n" * 3


async def test_missing_permission_raises_early(kubeconfig: str, namespace: str, pod: Json, tmp_path: Path) -> None:
    settings = SessionSettings(refused_window=2.0)
    kubectl(kubeconfig, "-n", namespace, "create", "serviceaccount", "looker")
    kubectl(kubeconfig, "-n", namespace, "create", "role", "looker", "--verb=get", "--resource=pods")
    account = f"--serviceaccount={namespace}:looker"
    kubectl(kubeconfig, "-n", namespace, "create", "rolebinding", "looker", "--role=looker", account)
    token = kubectl(kubeconfig, "-n", namespace, "create", "token", "looker").strip()
    async with Proxy(kubeconfig) as proxy:
        config = proxy.write_kubeconfig(tmp_path / "config", user={"token": token})
        async with (
            KubeClient.from_environment(config) as client,
            Session(connect(client, pod), settings=settings) as session,
        ):
            with pytest.raises(ExecRefused, match=r"for 2 s: .*403 Forbidden: .*looker. cannot get .*pods/exec"):
                await asyncio.wait_for(session.run("true", timeout=60), 30)


async def test_missing_container_is_named(client: KubeClient, pod: Json) -> None:
    settings = SessionSettings(refused_window=2.0)
    metadata = pod["metadata"]
    connector = PodConnector(client, metadata["namespace"], metadata["name"], uid=metadata["uid"], container="absent")
    async with Session(connector, settings=settings) as session:
        with pytest.raises(ExecRefused, match=r"for 2 s: .*400 BadRequest: .*container absent is not valid for pod"):
            await asyncio.wait_for(session.run("true", timeout=60), 30)


async def until_refused(client: KubeClient, namespace: str, pod: Json) -> None:
    """The API server remembers a token for some seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            await client.get("v1", "pods", namespace, pod["metadata"]["name"])
        except Unauthorized:
            return
        await asyncio.sleep(0.5)
    raise AssertionError("the token of a deleted Secret is still good after 60 s")


class SlowConnector:
    """A connector whose streams are not read while `paused`."""

    def __init__(self, inner: PodConnector) -> None:
        self._inner = inner
        self.reading = asyncio.Event()
        self.reading.set()

    async def open(self, command: Sequence[str]) -> SlowChannel:
        return SlowChannel(await self._inner.open(command), self.reading)


class SlowChannel(ExecChannel):
    def __init__(self, inner: ExecChannel, reading: asyncio.Event) -> None:
        super().__init__(inner._socket)
        self._reading = reading

    async def receive(self) -> Data | None:
        await self._reading.wait()
        return await super().receive()


@pytest.fixture
async def slow_session(client: KubeClient, pod: Json) -> AsyncIterator[tuple[SlowConnector, Session]]:
    connector = SlowConnector(connect(client, pod))
    async with Session(connector) as session:
        yield connector, session


async def test_paused_reader_loses_no_output_and_blocks_no_other(
    slow_session: tuple[SlowConnector, Session], session: Session
) -> None:
    connector, reader = slow_session
    await reader.open()
    await session.open()
    size = 40 << 20
    text = counted(f"head -c {size} /dev/zero | tr '\\0' x; echo end")
    connector.reading.clear()
    running = asyncio.create_task(reader.run(text, timeout=100, max_output=size + 4))
    took = []
    deadline = time.monotonic() + 12
    while time.monotonic() < deadline:
        started = time.monotonic()
        assert (await session.run("echo quick", timeout=10)).stdout == b"quick\n"
        took.append(time.monotonic() - started)
        await asyncio.sleep(0.05)
    connector.reading.set()
    result = await running
    assert result.stdout == b"x" * size + b"end\n" and not result.truncated
    assert sorted(took)[len(took) // 2] < 0.1, "a session waits for another one's reader"
    assert await runs_in(session) == b"run\n"


async def test_blocked_event_loop_loses_nothing(session: Session) -> None:
    running = asyncio.create_task(session.run(counted("seq 1 1000000; seq 1 5 >&2"), timeout=60, max_output=10 << 20))
    await asyncio.sleep(0.3)
    time.sleep(5)  # noqa: ASYNC251  # the whole event loop stands still
    result = await running
    assert result.stdout == "".join(f"{n}\n" for n in range(1, 1_000_001)).encode()
    assert (result.stderr, result.truncated) == (b"1\n2\n3\n4\n5\n", False)
