"""Runs in a Ray Pod: trajectories in Ray's own sandboxes, one line of JSON for each, in and out.

An order has `number`, `commands` and `kind`: `actor` is `sandbox.create()`, an actor for each sandbox; `runtime` is a
`SandboxRuntime` inside this process, as inside a rollout worker. The answer has `number` and `results`, the exit code
and the output's length of each command, or `error`. The only argument is the image.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.experimental import sandbox

TIMEOUT = 120.0  # seconds of a command
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # an archive has no environment of its own
SETTINGS: dict[str, Any] = {
    "workdir": "/", "readonly": False, "network": "none", "timeout_seconds": 300.0, "env": {"PATH": PATH}
}  # fmt: skip
Results = list[tuple[int, int]]


async def in_actor(image: str, commands: Sequence[str]) -> Results:
    """The documented way: an actor holds the sandbox."""
    held = sandbox.create(image=image, cpu=0, ttl_seconds=3600, **SETTINGS)
    results = []
    for command in commands:
        done = await held.exec.remote(["sh", "-c", command], timeout=TIMEOUT)
        results.append((done.exit_code, len(done.stdout)))
    await held.delete.remote()
    ray.kill(held)
    return results


def in_this_process(runtime: Any, image: str, commands: Sequence[str]) -> Results:
    """The way of a program that holds its sandboxes itself."""
    name = runtime.create(image=image, ttl_seconds=3600, **SETTINGS)
    results = []
    for command in commands:
        done = runtime.exec(name, ["sh", "-c", command], timeout=TIMEOUT)
        results.append((done.exit_code, len(done.stdout)))
    runtime.delete(name)
    return results


async def answer(order: dict[str, Any], runtime: Any, image: str, out: Any) -> None:
    """Run one trajectory and print what it came to."""
    try:
        if order["kind"] == "actor":
            results = await in_actor(image, order["commands"])
        else:
            results = await asyncio.to_thread(in_this_process, runtime, image, order["commands"])
        found: dict[str, Any] = {"results": results}
    except Exception:
        found = {"error": traceback.format_exc()}
    print(json.dumps({"number": order["number"], **found}), file=out, flush=True)


async def serve(image: str) -> None:
    """Answer orders until the input ends; an empty answer says that Ray has started and has the image."""
    out, sys.stdout = sys.stdout, sys.stderr
    ray.init(num_cpus=32, include_dashboard=False, log_to_driver=False)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    runtime = sandbox.SandboxRuntime()
    await asyncio.to_thread(runtime.pull_image, image, timeout_seconds=300.0)
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("{}", file=out, flush=True)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line), runtime, image, out))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
