"""Logs of a job: files in its folder (driver, engines, router, ranks), and containers of sandboxes and gradings.

Guarantees: each line has its file or Pod; files are read while the job runs and
after its end alike; a line longer than LONGEST_LINE is cut into several.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from swerl_api.names import JOB_LABEL, ROLE_GRADING, ROLE_LABEL, ROLE_SANDBOX
from swerl_kube import Json, KubeClient, NotFound, Unavailable

from .errors import JobCommandError
from .output import JobOutput, OutputLost, job_output, names_of
from .reasons import status_of

FILES: Mapping[str, str] = {  # source -> files in logs/<attempt>
    "driver": "driver.log",
    "engine": "engine-*.log",
    "router": "*router.log",
    "judge": "judge-*.log",
    "rank": "rank-*",  # the log, and stacks of calls that do not end
}
ROLES: Mapping[str, str] = {"sandbox": ROLE_SANDBOX, "grading": ROLE_GRADING}
SOURCES: tuple[str, ...] = (*FILES, *ROLES)
LONGEST_LINE = 1 << 16  # bytes
LOG_IDLE_TIMEOUT = 24 * 3600.0  # seconds that a followed log may have no line
QUEUE_LINES = 1000


@dataclass(frozen=True)
class LogLine:
    """One line, and the file or Pod that it is from."""

    source: str
    text: str


@dataclass(frozen=True)
class LogRequest:
    """Which lines."""

    sources: tuple[str, ...] = ("driver",)
    follow: bool = False
    tail: int = 100  # last lines of each file or container
    attempt: int | None = None  # None: the newest


async def log_lines(client: KubeClient, job: Json, request: LogRequest) -> AsyncIterator[LogLine]:
    """The lines, of several sources as they arrive; raises JobCommandError where there is no log yet.

    Followed lines end with the job where some are from its files; of sandboxes and gradings alone they do not end.
    """
    queue: asyncio.Queue[LogLine | None] = asyncio.Queue(QUEUE_LINES)

    async def read() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                roles = [role for source, role in ROLES.items() if source in request.sources]
                pods = [group.create_task(_pods(client, job, request, role, queue)) for role in roles]
                if set(request.sources) & set(FILES):
                    await _Files(client, job, request).read_into(queue)
                    for followed in pods if request.follow else ():
                        followed.cancel()
        finally:
            await queue.put(None)

    running = asyncio.create_task(read())
    try:
        while (line := await queue.get()) is not None:
            yield line
        await first_error(running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def first_error(running: Awaitable[None]) -> None:
    """Await, and raise the first error of groups of errors, which may hold groups."""
    try:
        await running
    except ExceptionGroup as errors:
        error: Exception = errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None


class _Files:
    """Files in the job's folder."""

    def __init__(self, client: KubeClient, job: Json, request: LogRequest) -> None:
        self._client, self._job, self._request = client, job, request

    async def read_into(self, queue: asyncio.Queue[LogLine | None]) -> None:
        async with job_output(self._client, self._job) as output:
            folder = await self._folder(output)
            files = await self._names(output, folder)
            if not files:
                wanted = ", ".join(FILES[each] for each in self._request.sources if each in FILES)
                raise JobCommandError(f"{output.folder}/{folder} has no {wanted}; name another --source or --attempt")
            async with asyncio.TaskGroup() as group:
                for file in files:
                    group.create_task(self._one(output, f"{folder}/{file}", file, queue))

    async def _folder(self, output: JobOutput) -> str:
        attempt = self._request.attempt or status_of(self._job).attempt
        found = names_of(await output.read("ls logs 2>/dev/null || true"))
        if attempt is None or str(attempt) not in found:
            have = f"; there are logs of attempts {', '.join(sorted(found))}" if found else ""
            name = self._job["metadata"]["name"]
            raise JobCommandError(
                f"attempt {attempt or 1} has written no log yet{have}; `swerl describe {name}` says what it waits for"
            )
        return f"logs/{attempt}"

    async def _names(self, output: JobOutput, folder: str) -> list[str]:
        patterns = " ".join(FILES[source] for source in self._request.sources if source in FILES)
        found = names_of(
            await output.read(f'cd "$1" && for f in {patterns}; do [ ! -f "$f" ] || echo "$f"; done', folder)
        )
        return list(dict.fromkeys(found))

    async def _one(self, output: JobOutput, path: str, file: str, queue: asyncio.Queue[LogLine | None]) -> None:
        followed = self._request.follow and output.live
        script = f'tail -n {self._request.tail} {"-F" if followed else ""} "$1" 2>/dev/null'
        try:
            async with aclosing(output.stream(script, path)) as chunks:  # type: ignore[type-var]
                async for line in split_lines(chunks):
                    await queue.put(LogLine(file.removesuffix(".log"), line))
        except OutputLost:
            if not followed:  # a followed log ends with its Pod
                raise


async def _pods(
    client: KubeClient, job: Json, request: LogRequest, role: str, queue: asyncio.Queue[LogLine | None]
) -> None:
    """Containers of the job's Pods of one role; with `follow` also of Pods that come later."""
    namespace, selector = job["metadata"]["namespace"], f"{JOB_LABEL}={job['metadata']['name']},{ROLE_LABEL}={role}"
    if not request.follow:
        for pod in await client.list("v1", "pods", namespace, labels=selector):
            await _container(client, pod, request, queue)
        return
    known: set[str] = set()
    async with asyncio.TaskGroup() as group:
        async for event in client.watch("v1", "pods", namespace, labels=selector):
            started = event.object.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed")
            uid = event.object["metadata"]["uid"]
            if started and uid not in known:
                known.add(uid)
                group.create_task(_container(client, event.object, request, queue))


async def _container(client: KubeClient, pod: Json, request: LogRequest, queue: asyncio.Queue[LogLine | None]) -> None:
    metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
    try:
        if request.follow:
            stream = client.follow_logs(
                metadata["namespace"], metadata["name"], container=container, silence=LOG_IDLE_TIMEOUT
            )
            async for line in split_lines(stream):
                await queue.put(LogLine(metadata["name"], line))
            return
        content = await client.logs(
            metadata["namespace"], metadata["name"], container=container, tail_lines=request.tail
        )
    except (NotFound, Unavailable):  # the Pod ended, or never started
        return
    for line in content.decode(errors="replace").splitlines():
        await queue.put(LogLine(metadata["name"], line))


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Whole lines of a stream of bytes; the last one also without its end."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace").rstrip("\r")
        while len(rest) > LONGEST_LINE:
            yield rest[:LONGEST_LINE].decode(errors="replace")
            rest = rest[LONGEST_LINE:]
    if rest:
        yield rest.decode(errors="replace").rstrip("\r")
