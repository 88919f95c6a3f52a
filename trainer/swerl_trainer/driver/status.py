"""The driver's part of the job's status, which `kubectl get swerl` shows.

Guarantees: one write per step, and at most one per 5 s for changed sandbox counts; an attempt that is no longer the
job's current one writes nothing and raises AttemptSuperseded; an unreachable API server delays status, never training.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from swerl_api import API_VERSION, GradingCounts, HeldOutRates, JobProgress, SandboxCounts
from swerl_api.names import PROFILE_ANNOTATION
from swerl_kube import KubeClient, KubeError, NotFound
from swerl_trainer.driver.errors import AttemptSuperseded
from swerl_trainer.job import Job

logger = logging.getLogger(__name__)

RESOURCE = "swerljobs"
COUNTS_SECONDS = 5.0  # between two writes of sandbox counts


class StatusReporter:
    """Writes the driver's part of the job's status."""

    def __init__(self, client: KubeClient, job: Job) -> None:
        self._client = client
        self._job = job
        self._held_out = HeldOutRates()
        self._counts: dict[str, int] = {}
        self._counted = 0.0
        self._profile = ""

    def traces(self, step: int) -> bool:
        """Whether the job's annotation requests a profiler trace of step `step`, as of the last write."""
        return self._profile.replace(" ", "") == f"step={step}"

    async def step(self, **progress: Any) -> None:
        """Write the progress of a step (fields of JobProgress)."""
        await self._write(JobProgress(**progress))

    async def held_out(self, *, before: float | None = None, after: float | None = None) -> None:
        """Write resolved rates of the held-out tasks."""
        rates = HeldOutRates(before=before, after=after)
        self._held_out = self._held_out.model_copy(update=rates.model_dump(exclude_none=True))
        await self._write(JobProgress(held_out=self._held_out))

    async def counts(self, counts: dict[str, int]) -> None:
        """Write sandbox and grading counts if they changed, at most every COUNTS_SECONDS."""
        now = time.monotonic()
        if counts == self._counts or now - self._counted < COUNTS_SECONDS:
            return
        self._counts, self._counted = dict(counts), now
        await self._write(
            JobProgress(
                sandboxes=SandboxCounts(pending=counts["pending"], ready=counts["ready"]),
                grading=GradingCounts(pending=counts["grading"]),
            )
        )

    async def _write(self, progress: JobProgress) -> None:
        body = {"status": progress.model_dump(by_alias=True, exclude_none=True)}
        name, namespace = self._job.name, self._job.namespace
        try:
            job = await self._client.get(API_VERSION, RESOURCE, namespace, name)
            self._check_current(job)
            self._profile = str((job["metadata"].get("annotations") or {}).get(PROFILE_ANNOTATION, ""))
            await self._client.patch(API_VERSION, RESOURCE, namespace, name, body, subresource="status")
        except NotFound as error:
            raise AttemptSuperseded(f"SweRLJob {namespace}/{name} was deleted") from error
        except KubeError as error:
            logger.warning("status not written: %s", error)

    def _check_current(self, job: dict[str, Any]) -> None:
        if self._job.uid and job["metadata"]["uid"] != self._job.uid:
            raise AttemptSuperseded(f"SweRLJob {self._job.name} was deleted and created again")
        attempt = (job.get("status") or {}).get("attempt")
        if attempt is not None and attempt != self._job.attempt:
            raise AttemptSuperseded(f"attempt {attempt} of {self._job.name} replaced attempt {self._job.attempt}")
