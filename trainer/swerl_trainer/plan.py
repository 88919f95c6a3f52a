"""`python -m swerl_trainer.plan JOB.yaml`: what a job needs in memory and traffic, and whether that fits.

Exit code 0 when the job fits, 1 when it is refused, 2 when job or model cannot be read. Needs no torch and no cluster.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError
from swerl_api import SweRLJobSpec
from swerl_api.base import format_validation_error
from swerl_plan import Machines, Models, known_models, plan_job, plan_text, read_shape, refusal

GIB = 2**30
H100_GIB = 79.6  # of an H100 or A100 with 80 GB


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; returns the exit code."""
    parser = argparse.ArgumentParser(prog="swerl_trainer.plan", description=__doc__)
    parser.add_argument("job", type=Path, help="YAML file with a SweRLJob")
    parser.add_argument("--model", type=Path, help="folder or config.json of the model, if it is not a known one")
    parser.add_argument("--gpu-memory", type=float, default=H100_GIB, metavar="GIB", help="of one GPU (%(default)s)")
    parser.add_argument("--host-memory", type=float, metavar="GIB", help="of one node; default: what the Pods ask for")
    options = parser.parse_args(arguments)
    try:
        spec = read_job(options.job)
        models = known_models(spec)
        if options.model is not None:
            models = Models(read_shape(options.model), models.judge)
    except (OSError, ValueError) as error:  # of which ShapeError is one
        print(error, file=sys.stderr)
        return 2
    host = None if options.host_memory is None else int(options.host_memory * GIB)
    return report(spec, models, Machines(int(options.gpu_memory * GIB), host))


def read_job(path: Path) -> SweRLJobSpec:
    """Spec of the first SweRLJob in `path`. Raises ValueError when there is none, or an invalid one."""
    documents = [document for document in yaml.safe_load_all(path.read_text()) if isinstance(document, dict)]
    job = next((document for document in documents if document.get("kind") == "SweRLJob"), None)
    if job is None:
        raise ValueError(f"{path} has no SweRLJob")
    try:
        return SweRLJobSpec.model_validate(job["spec"])
    except ValidationError as error:
        raise ValueError(f"{path}: {format_validation_error(error, 'spec.')}") from error


def report(spec: SweRLJobSpec, models: Models, machines: Machines) -> int:
    """Print plan and verdict; returns the exit code."""
    if models.policy is None:
        print("the model is not a known one: name its folder or its config.json with --model", file=sys.stderr)
        return 2
    plan = plan_job(spec, models.policy, machines, models.judge)
    if plan is not None:
        print(plan_text(spec, models.policy, plan))
        for warning in plan.warnings:
            print(f"warning  {warning}")
    refused = refusal(spec, models, machines)
    print(f"refused  {refused}" if refused else "fits")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
