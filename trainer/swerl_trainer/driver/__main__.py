"""Command line of the driver: exit code 0 only when the job is trained to its end.

Whatever else ends it is one last line `SWERL-ERROR: <what failed>` on standard output, for the operator's status.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

ERROR_PREFIX = "SWERL-ERROR:"
INTERRUPTED = 143  # exit code after SIGTERM


def main(arguments: list[str] | None = None) -> int:
    """Run the attempt that `--job` describes; the process's exit code."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="swerl_trainer.driver", description="Train one SweRLJob attempt.")
    parser.add_argument("--job", type=Path, default=Path("/etc/swerl/job.json"), help="description of the attempt")
    parser.add_argument("--kubeconfig", help="cluster to use; inside a Pod the Pod's own")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_run(options.job, options.kubeconfig, began))
    except asyncio.CancelledError:
        print(f"{ERROR_PREFIX} interrupted by SIGTERM", flush=True)
        return INTERRUPTED
    except BaseException as error:
        logging.getLogger("swerl_trainer.driver").exception("the attempt failed")
        print(f"{ERROR_PREFIX} {reason(error)}", flush=True)
        return 1
    return 0


def reason(error: BaseException) -> str:
    """One line on why an attempt ended; of several errors at once, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).strip() or "no message"
    return f"{type(error).__name__}: {text.splitlines()[0]}"


async def _run(path: Path, kubeconfig: str | None, began: float) -> None:
    import ray
    from swerl_trainer.driver.attempt import run_attempt
    from swerl_trainer.driver.job import Job

    job = Job.read(path)
    ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=True, logging_level=logging.WARNING)
    task = asyncio.current_task()
    if task is not None:  # after ray.init, which puts a handler of its own
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await run_attempt(job, began=began, kubeconfig=kubeconfig)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main())
