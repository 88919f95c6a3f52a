"""What a command in a sandbox must bring back, and who brings it back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from tests.bench.exec_peers.clients import Client, CommandOutput

PATIENCE = 60.0  # seconds a client may take for what takes 6
MANY = 10 << 20  # bytes


async def _shell(client: Client, script: str, timeout: float = PATIENCE) -> CommandOutput:
    return await client.run(0, ("sh", "-c", script), timeout)


async def exit_code(client: Client) -> bool:
    return (await _shell(client, "exit 7")).exit_code == 7


async def split_streams(client: Client) -> bool:
    answer = await _shell(client, "echo out; echo err >&2")
    return (answer.stdout, answer.stderr) == (b"out\n", b"err\n")


async def ten_megabytes(client: Client) -> bool:
    """Lines that differ, so that none may be missing, twice or elsewhere."""
    wanted = b"".join(b"%07d\n" % number for number in range(MANY >> 3))
    script = f"seq -f %07.0f 0 {(MANY >> 3) - 1}"
    return (await _shell(client, script)).stdout == wanted


async def not_utf8(client: Client) -> bool:
    return (await _shell(client, "printf '\\377\\376\\000x'")).stdout == b"\xff\xfe\0x"


async def background_child(client: Client) -> bool:
    """A child that holds the outputs open does not hold the command."""
    began = time.monotonic()
    answer = await _shell(client, "sleep 25 & echo started")
    return answer.stdout == b"started\n" and time.monotonic() - began < 10


async def killed_on_timeout(client: Client) -> bool:
    """After the time limit nothing of the command runs any more."""
    mark = f"300.{int.from_bytes(os.urandom(3), 'big')}"
    try:
        await _shell(client, f"sleep {mark} & sleep {mark}; true", timeout=3)
    except Exception as error:
        print(f"timeout as {type(error).__name__}")
    await asyncio.sleep(5)
    pattern = f"sleep [{mark[0]}]{mark[1:]}"  # does not match the search itself
    left = await _shell(client, f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '{pattern}'; true")
    return left.stdout.strip() == b"0"


async def api_server_killed(client: Client) -> bool:
    """The API server is killed while the command runs, every stream through it cut; it ran once, its output is there.

    A client that counts its lost streams must have lost one: else nothing was tried.
    """
    mark = f"/tmp/{os.urandom(4).hex()}"
    answer = await _shell(client, f"echo ran >>{mark}; sleep 8; cat {mark}")
    return answer.exit_code == 0 and answer.stdout == b"ran\n" and answer.reconnects != 0


CHECKS: dict[str, Callable[[Client], Awaitable[bool]]] = {
    "exit code": exit_code,
    "split streams": split_streams,
    "10 MB whole": ten_megabytes,
    "not UTF-8": not_utf8,
    "background child": background_child,
    "killed on timeout": killed_on_timeout,
    "API server killed": api_server_killed,
}
KILLED = "API server killed"  # the caller of this check kills it


async def check(client: Client, name: str) -> bool:
    """Whether the client does it right; an error or a client that hangs does not."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await CHECKS[name](client)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
        return False
