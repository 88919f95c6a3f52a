"""Sessions in real Pods: output, files, faults of the command and of the Pod."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import PodReplaced, Session, SessionSettings, Unresponsive
from swerl_kube import KubeClient

from tests.conftest import kubectl
from tests.control_plane.exec.conftest import connect, until

if TYPE_CHECKING:
    from .conftest import Json, MakePod


async def test_commands_files_and_bytes(session: Session) -> None:
    result = await session.run(r"echo out; printf '\377\n' >&2; exit 3", timeout=60)
    assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"\xff\n")
    data = bytes(range(256)) * (20 << 12)  # 20 MiB
    await session.write_file("/testbed/deep/file.bin", data, mode=0o600)
    assert await session.read_file("/testbed/deep/file.bin") == data


async def test_truncated_output_of_a_hundred_megabytes(session: Session) -> None:
    result = await session.run("head -c 104857600 /dev/zero | tr '\\0' x; echo end", timeout=120)
    assert result.stdout_bytes == 104857604 and len(result.stdout) == 256 << 10
    assert result.stdout.endswith(b"xend\n") and "bytes left out" in result.output


async def test_timeout_kills_a_command_and_its_daemon(session: Session) -> None:
    started = time.monotonic()
    result = await session.run("(setsid sh -c 'sleep 300' &) ; echo begun; sleep 600", timeout=3)
    assert result.timed_out and result.stdout == b"begun\n" and time.monotonic() - started < 30
    assert (await session.run("sleep 300 & echo here", timeout=30)).stdout == b"here\n"


async def test_deleted_working_directory(session: Session) -> None:
    await session.run("mkdir -p /testbed; rm -rf /testbed", timeout=30)
    assert (await session.run("true", timeout=30, cwd="/testbed")).exit_code == 126
    assert (await session.run("mkdir /testbed", timeout=30, cwd="/")).exit_code == 0
    assert (await session.run("pwd", timeout=30, cwd="/testbed")).stdout == b"/testbed\n"


async def test_command_that_kills_all_processes(session: Session) -> None:
    result = await session.run("echo begun; kill -9 -1; echo on; sleep 1", timeout=60)
    assert result.exit_code == 137 and result.stdout == b"begun\non\n"  # `kill -1` spares the one who calls it
    assert (await session.run("echo on", timeout=60)).stdout == b"on\n"


async def test_shell_that_hangs_since_a_command_replaced_it(client: KubeClient, pod: Json) -> None:
    settings = SessionSettings(reconnect_window=1.0, hello_timeout=10.0)
    replace = r"printf '#!/bin/dash\nexec sleep 300\n' >/bin/new && chmod 755 /bin/new && mv /bin/new /bin/sh"
    async with Session(connect(client, pod), settings=settings) as session:
        assert (await session.run(replace, timeout=60)).exit_code == 0
        assert session._stream is not None
        await session._stream.close()
        with pytest.raises(Unresponsive, match="the session loop did not start: no answer"):
            await session.run("true", timeout=60)


async def test_other_pod_of_the_same_name_raises(
    session: Session, client: KubeClient, namespace: str, pod: Json, make_pod: MakePod
) -> None:
    await session.run("true", timeout=60)
    name = pod["metadata"]["name"]
    await client.delete("v1", "pods", namespace, name, grace_seconds=0)

    async def process_ended() -> bool:
        return not await client.list("v1", "pods", namespace, fields=f"metadata.name={name}")

    await until(process_ended, f"{name} is gone")
    await make_pod(name)
    assert session._stream is not None
    await session._stream.close()
    with pytest.raises(PodReplaced, match="replaced by another Pod"):
        await session.run("true", timeout=60)


async def test_twenty_sessions_at_once(client: KubeClient, pod: Json) -> None:
    sessions = [Session(connect(client, pod)) for _ in range(20)]
    results = await asyncio.gather(*(s.run(f"sleep 0.5; echo {n}", timeout=120) for n, s in enumerate(sessions)))
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(20)]
    await asyncio.gather(*(s.close() for s in sessions))


async def test_stream_speaks_v4_if_the_server_does(session: Session, kubeconfig: str) -> None:
    await session.open()
    assert session._stream is not None
    channel = session._stream.channel
    assert getattr(channel, "protocol", None) == "v4.channel.k8s.io"
    assert "Server Version" in kubectl(kubeconfig, "version")


async def test_ten_megabytes_are_complete_both_ways(session: Session) -> None:
    data = bytes(range(256)) * (10 << 12)
    result = await session.run("tee /dev/stderr", timeout=60, stdin=data, max_output=len(data))
    assert result.stdout == data and result.stderr == data and not result.truncated


async def test_truncation_removes_the_middle(session: Session) -> None:
    result = await session.run("seq 1 2000000; seq 1 9 >&2", timeout=60, max_output=101)
    assert (result.stdout_bytes, result.stderr_bytes, len(result.stdout)) == (14888896, 18, 101)
    assert result.stdout.startswith(b"1\n2\n3\n") and result.stdout.endswith(b"1999999\n2000000\n")
    assert "[14888795 bytes left out]" in result.output


async def test_command_as_another_user(session: Session) -> None:
    text = "id -un; echo $HOME; echo err >>/dev/stderr; cat; touch /root/x; exit 7"
    result = await session.run(text, timeout=30, user="nobody", stdin=b"in\0put\n", cwd="/tmp")
    assert (result.exit_code, result.stdout) == (7, b"nobody\n/nonexistent\nin\0put\n")
    assert result.stderr.startswith(b"err\n") and b"Permission denied" in result.stderr
    timed_out = await session.run("sleep 1000", timeout=1, user="nobody")
    remaining = await session.run("pgrep -u nobody -r R,S,D -c", timeout=30)
    assert timed_out.timed_out and remaining.stdout == b"0\n"
    unknown = await session.run("echo ran", timeout=30, user="nobody-here")
    assert (unknown.exit_code, unknown.stdout) == (126, b"") and "no such user" in unknown.output
