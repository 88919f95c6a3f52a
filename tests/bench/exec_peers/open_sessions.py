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
from tests.bench.exec_peers.clients import PodTargets, make_client
from tests.bench.exec_peers.worker import COMMANDS, processor_seconds

SESSIONS = 512
EVERY = 10.0  # seconds between two commands of a session
LATE = 60.0  # seconds after which a command counts as lost


@dataclass(frozen=True)
class OpenSessions:
    cores: float  # processor seconds per second
    memory: int  # bytes resident, most at once
    commands: int
    lost: int  # commands without their result


async def measure_here(place: str, seconds: float) -> OpenSessions:
    """Open the sessions, then keep them busy for `seconds`."""
    client = make_client("ours", place)
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
    return OpenSessions(cores, memory, done, lost)


async def measure_open_sessions(place: PodTargets, seconds: float) -> OpenSessions:
    """The same in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.exec_peers.open_sessions", json.dumps(asdict(place)), str(seconds),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process that held the sessions ended with {process.returncode}; see above")
    return OpenSessions(**json.loads(out))


if __name__ == "__main__":
    print(json.dumps(asdict(run(measure_here(sys.argv[1], float(sys.argv[2]))))))
