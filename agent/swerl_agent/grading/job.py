"""One run of one grading Job: create it, read what its wrapper reports, delete it.

Guarantees: what it made is deleted whatever happens (and by Kubernetes if this process dies: the ConfigMaps belong to
the Job, the Job has a time to live); an outcome that the patch cannot have caused is an `Infrastructure` error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from swerl_api.conditions import SandboxReason
from swerl_api.images import PERMANENT_PULL_REASONS, PULL_PAUSES, START_REASONS
from swerl_kube import KubeClient, KubeError, NotFound, pause_after, pod_refusal
from swerl_kube.pod_loss import EXEC_FORMAT, FOREIGN_REMEDY

from swerl_agent.sandbox.waits import reported

from .framing import Framer, Malformed, Report
from .pods import PodState, PodWatch, follow_log

Manifest = dict[str, Any]
T = TypeVar("T")

STUCK = PULL_PAUSES | PERMANENT_PULL_REASONS | START_REASONS  # waiting reasons that more waiting does not resolve
REFUSAL_PAUSE = 20.0  # seconds without a Pod after which its refusal is looked for, again and again
LOG_GRACE = 15.0  # seconds for the rest of the log after the container has ended
REOPEN_PAUSE = 0.2  # seconds between reads of a log that is not there yet


class Infrastructure(Exception):
    """The Job gave no report for a reason outside the patch; another Job may."""


class GradingForeignArchitecture(Infrastructure):
    """The image's programs are for another architecture than the node."""


class NoReport(Infrastructure):
    """The wrapper began and was gone without its report: it was killed or tampered with."""


@dataclass(frozen=True)
class LimitExceeded:
    """The patch used up what its Pod may use."""

    what: str  # memory | storage
    message: str


Outcome = Report | LimitExceeded


@dataclass(frozen=True)
class JobRun:
    """A Job that is over."""

    outcome: Outcome
    image: str  # that it ran, as the node resolved it; empty where that is not known


async def run_job(
    client: KubeClient, watch: PodWatch, namespace: str, job: Manifest, maps: Sequence[Manifest], *, deadline: float
) -> JobRun:
    """What the Job reported; raises Infrastructure after `deadline` seconds or when no report can come."""
    name = job["metadata"]["name"]
    adoption: asyncio.Task[None] | None = None
    with watch.subscribe(name) as states:
        try:
            for payload in maps:
                await client.create("configmaps", payload, namespace=namespace)
            made = await client.create("jobs", job, namespace=namespace)
            adoption = asyncio.create_task(_adopt(client, namespace, made, maps))
            async with asyncio.timeout(deadline):
                return await _outcome(client, namespace, name, states)
        except TimeoutError as error:
            raise Infrastructure(f"Job {namespace}/{name} gave no report in {deadline:.0f} s") from error
        except KubeError as error:
            raise Infrastructure(f"Job {namespace}/{name}: {error}") from error
        finally:
            await asyncio.shield(_delete(client, namespace, name, maps, adoption))


async def _adopt(client: KubeClient, namespace: str, job: Mapping[str, Any], maps: Sequence[Manifest]) -> None:
    """Make the Job owner of its payload, so that Kubernetes deletes both together."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    for payload in maps:
        body = {"metadata": {"ownerReferences": [owner]}}
        await client.patch("v1", "configmaps", namespace, payload["metadata"]["name"], body)


async def _delete(
    client: KubeClient,
    namespace: str,
    name: str,
    maps: Sequence[Manifest],
    adoption: asyncio.Task[None] | None,
) -> None:
    if adoption is not None:
        await asyncio.wait([adoption])
    adopted = adoption is not None and not adoption.cancelled() and adoption.exception() is None
    resources = [("batch/v1", "jobs", name)]
    resources += [] if adopted else [("v1", "configmaps", payload["metadata"]["name"]) for payload in maps]
    for api, resource, target in resources:
        try:
            await client.delete(api, resource, namespace, target, propagation="Background")
        except NotFound:
            pass
        except KubeError:
            continue  # the Job's time to live and the owner references end it later


async def _outcome(
    client: KubeClient, namespace: str, name: str, states: asyncio.Queue[PodState | KubeError]
) -> JobRun:
    """The report, read while the Pod runs; the Pod's end decides only when there is no report."""
    reader = _ReportReader(client, namespace)
    image, seen = "", None
    start = AsyncExitStack()
    try:
        await start.enter_async_context(reported(lambda: _waits_for(namespace, name, seen)))
        while True:
            state = await reader.report_or(states.get() if seen else _first_state(client, namespace, name, states))
            if isinstance(state, Report):
                return JobRun(state, image)
            if isinstance(state, KubeError):
                raise Infrastructure(f"the watch of grading Pods ended: {state}")
            seen, image = state, state.image or image
            if state.started:
                await start.aclose()
                reader.start(state.name)
            if state.ended:
                return JobRun(await _final_outcome(reader, state), image)
            if state.reason in STUCK:
                raise Infrastructure(f"Pod {state.name} cannot start: {state.reason}: {state.message}")
    finally:
        await start.aclose()
        reader.stop()


def _waits_for(namespace: str, job: str, state: PodState | None) -> str:
    """Why a grading has not begun, for a person who waits."""
    if state is None:
        return f"grading Job {namespace}/{job} waits: it has no Pod yet"
    return f"grading Pod {namespace}/{state.name} waits: {state.reason or 'no status yet'}: {state.message}".rstrip(
        ": "
    )


async def _first_state(
    client: KubeClient, namespace: str, job: str, states: asyncio.Queue[PodState | KubeError]
) -> PodState | KubeError:
    """The Pod's first state; raises Infrastructure when the API server refuses the Pod."""
    while True:
        try:
            async with asyncio.timeout(REFUSAL_PAUSE):
                return await states.get()
        except TimeoutError:
            if message := await pod_refusal(client, namespace, job):
                raise Infrastructure(f"Job {namespace}/{job}: its Pod is refused: {message}") from None


class _ReportReader:
    """Reads one Pod's log in the background until the report is there."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._task: asyncio.Task[Report] | None = None
        self.begun = False  # the wrapper has said something

    def start(self, pod: str) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._read(pod))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def report_or(self, other: Coroutine[Any, Any, T]) -> T | Report:
        """What comes first: the result of `other`, or the report (or the reader's error)."""
        task = asyncio.create_task(other)
        try:
            await asyncio.wait([task, *([self._task] if self._task else [])], return_when=asyncio.FIRST_COMPLETED)
            return self._task.result() if self._task and self._task.done() else task.result()
        finally:
            task.cancel()

    async def rest(self) -> Report | None:
        """The report if the log of an ended container still holds one."""
        if self._task is None:
            return None
        done, _ = await asyncio.wait([self._task], timeout=LOG_GRACE)
        return self._task.result() if done else None

    async def _read(self, pod: str) -> Report:
        while True:  # a broken stream is opened again, from the log's start
            framer, pause = Framer(), REOPEN_PAUSE
            try:
                async for chunk in follow_log(self._client, self._namespace, pod):
                    report = framer.feed(chunk)
                    self.begun |= framer.begun
                    if report:
                        return report
            except Malformed as error:
                raise NoReport(f"Pod {pod}: {error}") from error
            except NotFound as error:
                raise Infrastructure(f"Pod {pod} is gone: {error}") from error
            except KubeError as error:
                pause = pause_after(error, REOPEN_PAUSE)
            await asyncio.sleep(pause)


async def _final_outcome(reader: _ReportReader, state: PodState) -> Outcome:
    """The rest of the log of a Pod that has ended, or what its end means.

    The table of `pod_loss` answers why a Pod was lost. A grading asks whether the patch can be the cause, so two rows
    differ here. A container that was killed for memory exceeded its limit, also while its node is drained. A message of
    the kernel counts only before the wrapper began, which no time shows as surely.
    """
    report = await reader.rest() if state.reason in ("Completed", "Error", "OOMKilled") else None
    if report:
        return report
    if state.reason == "OOMKilled":
        return LimitExceeded("memory", f"Pod {state.name} was stopped for using more memory than its limit")
    if state.loss == SandboxReason.STORAGE_EXCEEDED:
        return LimitExceeded("storage", state.message)
    if not reader.begun and EXEC_FORMAT in state.message:
        raise GradingForeignArchitecture(f"Pod {state.name}: {state.message.strip()}: {FOREIGN_REMEDY}")
    if state.disruption:  # an eviction kills the wrapper too, and says nothing about the patch
        raise Infrastructure(f"Pod {state.name} left its node before its report: {state.disruption}")
    kind = NoReport if reader.begun and state.reason in ("Completed", "Error") else Infrastructure
    raise kind(f"Pod {state.name} ended without a report: {state.reason} {state.message}".strip())
