"""Command line of the process that keeps an evaluation's engines; it ends only by SIGTERM or by failing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from swerl_api import EvaluationFile
from swerl_trainer.process import on_ray, run_to_end
from swerl_trainer.serving.errors import ServingError
from swerl_trainer.serving.log import log_of


def main(arguments: list[str] | None = None) -> int:
    """Serve the model that `--config` describes; the process's exit code."""
    parser = argparse.ArgumentParser(prog="swerl_trainer.serving", description="Keep the engines of one SweEval.")
    parser.add_argument("--config", type=Path, default=Path("/etc/swerl/evaluation.json"), help="the evaluation")
    options = parser.parse_args(arguments)
    return run_to_end(_run(options.config), permanent_errors=(ServingError,))


async def _run(path: Path) -> None:
    from swerl_trainer.serving.serve import serve

    try:
        file = EvaluationFile.read(path)
    except ValueError as error:
        raise ServingError(str(error)) from error
    log_of(file).configure(sys.stdout)
    async with on_ray():
        await serve(file)


if __name__ == "__main__":
    sys.exit(main())
