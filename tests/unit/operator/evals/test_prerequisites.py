"""Which model is evaluated, and the message when there is none."""

from __future__ import annotations

from typing import Any

from swerl_api import SweEvalSpec
from swerl_operator.evals.evaluation import ServedModel
from swerl_operator.evals.prerequisites import find_model
from swerl_operator.problem import Problem

from .conftest import CHECKPOINT, JOB_SPEC, Spec


class Api:
    """An API server with at most one SweRLJob."""

    def __init__(self, **status: Any) -> None:
        self.job: dict[str, Any] | None = {"spec": JOB_SPEC, "status": status}

    async def find(self, api_version: str, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (resource, namespace, name) == ("swerljobs", "ns", "demo")
        return self.job


async def find_served(api: Api, spec: Spec, checkpoint: str | None = None) -> ServedModel | Problem:
    return await find_model(api, "ns", SweEvalSpec.model_validate(spec), checkpoint)  # type: ignore[arg-type]


async def test_newest_checkpoint_is_chosen_once(engine_spec: Spec) -> None:
    found = await find_served(Api(lastCheckpoint=CHECKPOINT), engine_spec)
    assert isinstance(found, ServedModel) and (found.checkpoint, found.dtype) == (CHECKPOINT, "float32")
    later = await find_served(
        Api(lastCheckpoint="/swerl/output/demo/checkpoints/step-0000099"), engine_spec, CHECKPOINT
    )
    assert isinstance(later, ServedModel) and later.checkpoint == CHECKPOINT


async def test_step_selects_its_checkpoint(engine_spec: Spec) -> None:
    found = await find_served(Api(), engine_spec | {"model": {"job": {"name": "demo", "step": 12}}})
    assert isinstance(found, ServedModel) and found.checkpoint == CHECKPOINT


async def test_missing_job_and_a_missing_checkpoint_have_different_reasons(engine_spec: Spec) -> None:
    early = await find_served(Api(), engine_spec)
    assert isinstance(early, Problem) and early.reason == "NoCheckpoint" and "wait for its first" in early.message
    api = Api()
    api.job = None
    problem = await find_served(api, engine_spec)
    assert isinstance(problem, Problem) and problem.reason == "JobMissing" and "'demo'" in problem.message
