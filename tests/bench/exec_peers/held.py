"""Many sessions held open by one process, a command on each now and then: what that costs, and whether any is lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from dataclasses import asdict, dataclass

from swerl_agent.event_loop import run

from tests.bench.exec_peers import machine
from tests.bench.exec_peers.clients import Place, made
from tests.bench.exec_peers.worker import COMMANDS, processor_seconds

SESSIONS = 512
EVERY = 10.0  # seconds between two commands of a session
LATE = 60.0  # seconds after which a command counts as lost


@dataclass(frozen=True)
class Held:
    cores: float  # processor seconds per second
    memory: int  # bytes resident, most at once
    commands: int
    lost: int  # commands without their result


async def hold(place: str, seconds: float) -> Held:
    """Open the sessions, then keep them busy for `seconds`."""
    client = made("ours", place)
    await client.open(SESSIONS)
    started, used = time.monotonic(), processor_seconds()
    done, lost, memory = 0, 0, 0

    async def keep(slot: int) -> None:
        nonlocal done, lost
        await asyncio.sleep(random.uniform(0, EVERY))
        while time.monotonic() - started < seconds:
            try:
                answer = await client.run(slot, COMMANDS["true"], LATE)
                lost += answer.exit_code != 0
            except Exception as error:
                print(f"session {slot}: {error}", file=sys.stderr)
                lost += 1
            done += 1
            await asyncio.sleep(EVERY)

    keepers = asyncio.gather(*(keep(slot) for slot in range(SESSIONS)))
    while not keepers.done():
        memory = max(memory, machine.memory(os.getpid()))
        await asyncio.wait([keepers], timeout=5)
    cores = (processor_seconds() - used) / (time.monotonic() - started)
    await client.close()
    return Held(cores, memory, done, lost)


async def held(place: Place, seconds: float) -> Held:
    """The same in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.exec_peers.held", json.dumps(asdict(place)), str(seconds),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process that held the sessions ended with {process.returncode}; see above")
    return Held(**json.loads(out))


if __name__ == "__main__":
    print(json.dumps(asdict(run(hold(sys.argv[1], float(sys.argv[2]))))))
