"""Ray's own sandboxes: a Pod of our trainer's image with gVisor's `runsc`, and the program that runs in it.

The Pod is what Ray's guide for Kubernetes asks for: no privileges, but no seccomp profile either, because `runsc` makes
a user namespace. The image of the sandboxes is a tar archive: Ray reads no layers compressed with zstd, as ours are.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tests.bench.trajectories.commands import check
from tests.bench.trajectories.peers import create, remove
from tests.bench.trajectories.way import Json, Place

PROGRAM = Path(__file__).with_name("ray_program.py")
POD = "ray"
FILES = "/bench"  # in the Pod: the archive of the image
ARCHIVE = "sandbox.tar"
LINE_LIMIT = 1 << 24
START_SECONDS = 300.0
MEMORY = "8Gi"


class RayProgram:
    """The program in the Pod, as a process of `kubectl exec`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Json]] = {}

    async def follow(self) -> None:
        """Hand out answers until the process ends, which fails the open ones."""
        assert self._process.stdout
        while line := await self._process.stdout.readline():
            if (answer := json.loads(line)) and not (waiting := self._answers.pop(answer["number"])).done():
                waiting.set_result(answer)
        for waiting in self._answers.values():
            waiting.set_exception(RuntimeError("the program in the Ray Pod ended; see ray.log"))

    async def run(self, kind: str, commands: Sequence[str]) -> None:
        """One trajectory; raises RuntimeError when it failed."""
        assert self._process.stdin
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        order = {"number": number, "kind": kind, "commands": list(commands)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        found = await answer
        if "error" in found:
            raise RuntimeError(f"a sandbox of Ray failed:\n{found['error']}")
        for command, (exit_code, length) in zip(commands, found["results"], strict=True):
            check(command, exit_code, length)


class RaySandbox:
    """Ray's sandboxes; `kind` is `actor` or `runtime`, see the program."""

    def __init__(self, program: RayProgram, kind: str) -> None:
        self._program, self._kind = program, kind

    async def prepare(self, names: Sequence[str]) -> None:
        """Nothing is prepared: Ray and its worker Pod are there."""

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        await self._program.run(self._kind, commands)


@asynccontextmanager
async def ray_program(place: Place, image: str, files: Path) -> AsyncIterator[RayProgram]:
    """Ray started in a Pod of `image`; `files` is the node's folder with the archive of the sandboxes' image."""
    await create(place, ray_pod(image, files))
    await place.pods.ready(POD)
    with (place.folder / "ray.log").open("wb") as log:
        process = await _start(place, log)
        program = RayProgram(process)
        assert process.stdout and process.stdin
        async with asyncio.timeout(START_SECONDS):
            if not await process.stdout.readline():
                raise RuntimeError(f"Ray did not start in its Pod; see {place.folder / 'ray.log'}")
        following = asyncio.create_task(program.follow())
        try:
            yield program
        finally:
            process.stdin.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 30)
            following.cancel()
            await remove(place, POD)


async def _start(place: Place, log: IO[Any]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        "kubectl", "--kubeconfig", place.kubeconfig, "-n", place.namespace, "exec", "-i", POD, "--",
        "python3", "-c", PROGRAM.read_text(), f"{FILES}/{ARCHIVE}",
        stdin=pipe, stdout=pipe, stderr=log, limit=LINE_LIMIT,
    )  # fmt: skip


def ray_pod(image: str, files: Path) -> Json:
    """The Pod as Ray's guide describes it."""
    container = {
        "name": "ray",
        "image": image,
        "command": ["sleep", "36000"],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": MEMORY}},
        "securityContext": {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}},
        "volumeMounts": [{"name": "files", "mountPath": FILES, "readOnly": True}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "files", "hostPath": {"path": str(files)}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": pod}
