"""`python -m tests.bench.exec_peers.worker CLIENT PLACE`: one client in its own process, driven by lines of input.

One JSON object in, one out. A process each, so that processor time, memory and sockets are the client's alone.
Ours runs on the event loop of our own programs, the others on asyncio's: on uvloop's `kubernetes_asyncio` loses the end
of outputs, see swerl_agent.event_loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import sys
import time
from typing import Any

from swerl_agent.event_loop import run

from tests.bench.exec_peers import correctness
from tests.bench.exec_peers.clients import Client, make_client
from tests.bench.exec_peers.targets import MIB

COMMANDS = {
    "true": ("true",),
    "1MiB": ("cat", MIB),  # which costs next to nothing: what is compared is the way out of the Pod
}
TIMEOUT = 300.0


def processor_seconds() -> float:
    """Of this process and the ones it waited for."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


async def load(client: Client, command: str, slots: int, seconds: float) -> dict[str, Any]:
    """Every slot runs the command again and again for `seconds`, at least once; then what that came to.

    Times are those of the commands that succeeded.
    """
    taken: list[float] = []
    failures: list[str] = []
    started, used = time.perf_counter(), processor_seconds()

    async def repeat(slot: int) -> None:
        while True:
            began = time.perf_counter()
            try:
                answer = await client.run(slot, COMMANDS[command], TIMEOUT)
                if answer.exit_code != 0 or (command == "1MiB" and len(answer.stdout) != 1 << 20):
                    failures.append(f"exit code {answer.exit_code}, {len(answer.stdout)} bytes")
                else:
                    taken.append(time.perf_counter() - began)
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
            if time.perf_counter() - started > seconds:
                return

    await asyncio.gather(*(repeat(slot) for slot in range(slots)))
    wall = time.perf_counter() - started
    return {"taken": taken, "wall": wall, "cpu": processor_seconds() - used, "failures": failures}


async def warm(client: Client, command: str, slots: int) -> None:
    """Every slot runs the command once, uncounted: what a client makes at its first command it has made then."""
    runs = (client.run(slot, COMMANDS[command], TIMEOUT) for slot in range(slots))
    await asyncio.gather(*runs, return_exceptions=True)


async def serve(client: Client) -> None:
    """Answer orders until the input ends."""
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    out = sys.stdout
    sys.stdout = sys.stderr  # clients print
    while line := await reader.readline():
        order = json.loads(line)
        if order["do"] == "open":
            await client.open(order["slots"])
            if "command" in order:
                await warm(client, order["command"], order["slots"])
            answer: dict[str, Any] = {}
        elif order["do"] == "load":
            answer = await load(client, order["command"], order["slots"], order["seconds"])
        else:
            answer = {"right": await correctness.check(client, order["name"])}
        print(json.dumps(answer), file=out, flush=True)
    await client.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    start = run if sys.argv[1].startswith("ours") else asyncio.run
    start(serve(make_client(*sys.argv[1:3])))
