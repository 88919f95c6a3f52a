"""Posts repairs as Events of the SweRLJob.

Guarantees: no component waits for an Event; a burst is cut to QUEUE_LENGTH Events, one each PAUSE_SECONDS; an API
server that refuses or does not answer costs Events, never the training.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from swerl_api.conditions import now
from swerl_api.event_body import event_body
from swerl_kube import KubeClient, KubeError
from swerl_trainer.events import event_reason
from swerl_trainer.job import Job

QUEUE_LENGTH = 64
PAUSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


@asynccontextmanager
async def posting_events(client: KubeClient, job: Job, *, pause: float = PAUSE_SECONDS) -> AsyncIterator[None]:
    """Meanwhile, lines of this package that are Events are posted, one each `pause` seconds."""
    poster, package = EventPoster(client, job, pause), logging.getLogger("swerl_trainer")
    package.addHandler(poster)
    posting = asyncio.create_task(poster.run(), name="events")
    try:
        yield
    finally:
        package.removeHandler(poster)
        posting.cancel()


class EventPoster(logging.Handler):
    """A log handler for the driver's event loop; `run` posts what it has taken."""

    def __init__(self, client: KubeClient, job: Job, pause: float) -> None:
        super().__init__()
        self._pause = pause
        self._client = client
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._bodies: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE_LENGTH)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line that is an Event; called from any thread."""
        if (reason := event_reason(record)) is not None:
            job = self._job
            body = event_body(
                {"kind": "SweRLJob", "namespace": job.namespace, "name": job.name, "uid": job.uid},
                type="Warning" if record.levelno >= logging.WARNING else "Normal",
                reason=reason,
                message=f"attempt {job.attempt}: {record.getMessage()}",
                time=now(),
                component="swe-rl-driver",
                labels=job.labels,
            )
            self._loop.call_soon_threadsafe(self._put, body)

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            body = await self._bodies.get()
            try:
                await self._client.create("events", body)
            except KubeError as error:
                logger.info("an Event was not posted: %s", error)
            await asyncio.sleep(self._pause)

    def _put(self, body: dict[str, Any]) -> None:
        if not self._bodies.full():
            self._bodies.put_nowait(body)
