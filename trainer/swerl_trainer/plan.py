"""`python -m swerl_trainer.plan JOB.yaml`: what a job needs in memory and traffic, and whether that fits. Of a SweEval,
what its engines need.

Exit code 0 when it fits, 1 when it is refused, 2 when file or model cannot be read. Needs no torch and no cluster.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from swerl_api import SweEvalSpec, SweRLJobSpec
from swerl_api.base import ApiModel, format_validation_error
from swerl_plan import (
    Machines,
    Models,
    ModelShape,
    evaluation_plan,
    known_models,
    plan_job,
    plan_text,
    read_shape,
    refusal,
)

Spec = TypeVar("Spec", bound=ApiModel)

GIB = 2**30
H100_GIB = 79.6  # of an H100 or A100 with 80 GB


def main(arguments: list[str] | None = None) -> int:
    """Print the plan; returns the exit code."""
    parser = argparse.ArgumentParser(prog="swerl_trainer.plan", description=__doc__)
    parser.add_argument("job", type=Path, help="YAML file with a SweRLJob or a SweEval")
    parser.add_argument("--model", type=Path, help="folder or config.json of the model, if it is not a known one")
    parser.add_argument("--gpu-memory", type=float, default=H100_GIB, metavar="GIB", help="of one GPU (%(default)s)")
    parser.add_argument("--host-memory", type=float, metavar="GIB", help="of one node; default: what the Pods ask for")
    options = parser.parse_args(arguments)
    host = None if options.host_memory is None else int(options.host_memory * GIB)
    machines = Machines(int(options.gpu_memory * GIB), host)
    try:
        shape = None if options.model is None else read_shape(options.model)
        if (evaluation := read_evaluation(options.job)) is not None:
            return report_engines(evaluation, shape, machines)
        spec = read_job(options.job)
        models = known_models(spec)
        return report(spec, models if shape is None else Models(shape, models.judge), machines)
    except (OSError, ValueError) as error:  # of which ShapeError is one
        print(error, file=sys.stderr)
        return 2


def read_job(path: Path) -> SweRLJobSpec:
    """Spec of the first SweRLJob in `path`. Raises ValueError when there is none, or an invalid one."""
    spec = _first(path, "SweRLJob", SweRLJobSpec)
    if spec is None:
        raise ValueError(f"{path} has no SweRLJob")
    return spec


def read_evaluation(path: Path) -> SweEvalSpec | None:
    """Spec of the first SweEval of a file that has no SweRLJob. Raises ValueError when it is invalid."""
    return None if _document(path, "SweRLJob") else _first(path, "SweEval", SweEvalSpec)


def _first(path: Path, kind: str, model: type[Spec]) -> Spec | None:
    document = _document(path, kind)
    if document is None:
        return None
    try:
        return model.model_validate(document["spec"])
    except ValidationError as error:
        raise ValueError(f"{path}: {format_validation_error(error, 'spec.')}") from error


def _document(path: Path, kind: str) -> dict[str, Any] | None:
    """The first object of `kind` in `path`."""
    documents = [document for document in yaml.safe_load_all(path.read_text()) if isinstance(document, dict)]
    return next((document for document in documents if document.get("kind") == kind), None)


def report(spec: SweRLJobSpec, models: Models, machines: Machines) -> int:
    """Print plan and verdict; returns the exit code."""
    if models.policy is None:
        return _unknown()
    plan = plan_job(spec, models.policy, machines, models.judge)
    if plan is not None:
        print(plan_text(spec, models.policy, plan))
        for warning in plan.warnings:
            print(f"warning  {warning}")
    return _print_result(refusal(spec, models, machines))


def report_engines(spec: SweEvalSpec, shape: ModelShape | None, machines: Machines) -> int:
    """Print plan and verdict of an evaluation's engines; returns the exit code. Raises ValueError when it has none."""
    if shape is None:
        return _unknown()
    text, problems = evaluation_plan(spec, shape, machines)
    print(text)
    return _print_result("; ".join(problems))


def _unknown() -> int:
    print("the model is not a known one: name its folder or its config.json with --model", file=sys.stderr)
    return 2


def _print_result(refused: str | None) -> int:
    print(f"refused  {refused}" if refused else "fits")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
