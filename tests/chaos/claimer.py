"""A program that claims a sandbox and runs in it what it reads: JSON lines of [command, timeout], answered by lines."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from swerl_agent.sandbox import Sandbox

from tests.chaos.conftest import RESOURCES
from tests.control_plane.exec.conftest import IMAGE


def print_json(word: object) -> None:
    print(json.dumps(word), flush=True)


async def main(namespace: str) -> None:
    async with Sandbox.claim(IMAGE, 1, namespace=namespace, resources=RESOURCES) as [sandbox]:
        print_json("claimed")
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, timeout = json.loads(line)
            result = await sandbox.run(command, timeout=timeout)
            print_json(
                {
                    "stdout": result.stdout.decode(),
                    "timed_out": result.timed_out,
                    "duration": result.duration,
                    "wall": time.time(),
                }
            )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
