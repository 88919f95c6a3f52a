"""Command line of the driver: exit code 0 only when the job is trained to its end, NO_RETRY for invalid input."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from swerl_trainer.process import on_ray, run_to_end

logger = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Run the attempt that `--job` describes; the process's exit code."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="swerl_trainer.driver", description="Train one SweRLJob attempt.")
    parser.add_argument("--job", type=Path, default=Path("/etc/swerl/job.json"), help="description of the attempt")
    parser.add_argument("--kubeconfig", help="cluster to use; inside a Pod the Pod's own")
    options = parser.parse_args(arguments)
    return run_to_end(_run(options.job, options.kubeconfig, began), permanent_errors=permanent_errors())


def permanent_errors() -> tuple[type[BaseException], ...]:
    """Errors that would end the next attempt too."""
    from swerl_agent.episode import PromptError, TokenizerError
    from swerl_agent.tasks import TaskError
    from swerl_trainer.job import JobError
    from swerl_trainer.megatron.errors import ConversionError, LayoutError
    from swerl_trainer.rollout.errors import TaskImagesMissing

    return (JobError, TaskError, PromptError, TokenizerError, LayoutError, ConversionError, TaskImagesMissing)


async def _run(path: Path, kubeconfig: str | None, began: float) -> None:
    from swerl_trainer.driver.attempt import run_attempt
    from swerl_trainer.driver.download import download
    from swerl_trainer.driver.preflight import check_layout
    from swerl_trainer.job import Job
    from swerl_trainer.process_log import ProcessLog

    log = ProcessLog()
    job = Job.read(path)
    job.log.configure(sys.stdout)
    if job.spec.ignored_fields:
        fields = ", ".join(f"spec.{field}" for field in job.spec.ignored_fields)
        logger.warning("this image is older than the operator and ignores %s", fields)
    async with on_ray():
        await download(job)
        await check_layout(job)
        await run_attempt(job, began=began, kubeconfig=kubeconfig, log=log)


if __name__ == "__main__":
    sys.exit(main())
