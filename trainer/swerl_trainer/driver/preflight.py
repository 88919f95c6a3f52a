"""What is checked of an attempt before ranks and engines start: its plan, from the model's folder, and own functions.

Guarantees: a job that cannot fit ends with a LayoutError that has the numbers and a layout that fits; a model that
cannot be planned is left to the ranks, which name what they do not support.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
from pathlib import Path

from swerl_api import AlgorithmSpec, SweRLJobSpec
from swerl_api.names import TRAIN_RESOURCE
from swerl_plan import Machines, Models, ModelShape, ShapeError, plan_job, plan_text, read_shape, refusal
from swerl_trainer.job import Job, JobError
from swerl_trainer.megatron.errors import LayoutError

logger = logging.getLogger(__name__)

MIB = 2**20
QUERY = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
QUERY_SECONDS = 60.0  # for a trainer Pod to join and answer; after that the plan does without the size of its GPUs


async def check_layout(job: Job) -> None:
    """Log the plan of `job`. Raises LayoutError when the job cannot fit."""
    spec, models = job.spec, job_models(job)
    if models.policy is None:
        return
    machines = Machines(gpu_memory=await _gpu_memory(spec))
    if text := refusal(spec, models, machines):
        raise LayoutError(text)
    plan = plan_job(spec, models.policy, machines, models.judge)
    if plan is not None:
        logger.info("plan:\n%s", plan_text(spec, models.policy, plan))
        for warning in plan.warnings:
            logger.warning("%s", warning)


def job_models(job: Job) -> Models:
    """Shapes of the models of `job` whose folders this process can read."""
    return Models(_shape(job.paths.model), _shape(job.paths.judge) if job.spec.judge else None)


def check_functions(algorithm: AlgorithmSpec) -> None:
    """Raises JobError when a function that `algorithm` names cannot be imported: every attempt has the same image."""
    from swerl_trainer.algorithm import AlgorithmError  # imports torch
    from swerl_trainer.algorithm.own_functions import check_own_functions

    try:
        check_own_functions(algorithm)
    except AlgorithmError as error:
        raise JobError(str(error)) from error


def _shape(folder: Path) -> ModelShape | None:
    try:
        return read_shape(folder)
    except ShapeError as error:
        logger.warning("the job is not planned: %s", error)
        return None


async def _gpu_memory(spec: SweRLJobSpec) -> int | None:
    """Bytes of a GPU of a trainer Pod; None without GPUs, or when no Pod answers in time."""
    if not spec.trainer.gpus:
        return None
    import ray

    query = ray.remote(smallest_gpu).options(num_cpus=0, resources={TRAIN_RESOURCE: 0.001})
    try:
        async with asyncio.timeout(QUERY_SECONDS):
            return int(await query.remote())
    except (TimeoutError, ray.exceptions.RayError) as error:
        logger.warning("the size of the GPUs is not known, so their memory is not checked: %r", error)
        return None


def smallest_gpu() -> int:
    """Bytes of the smallest GPU of this machine."""
    completed = subprocess.run(QUERY, capture_output=True, text=True, check=True, timeout=QUERY_SECONDS)
    return min(int(line) for line in completed.stdout.split()) * MIB
