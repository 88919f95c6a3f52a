"""Host memory of engines that have Pods of their own: shown in the plan, and a warning where the limit is lower."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_api import JudgeSpec, Resources, SweRLJobSpec
from swerl_plan import JobPlan, Machines, known_shape, plan_job, plan_text
from swerl_plan.engine import CPU_PROCESS, GPU_PROCESS
from swerl_plan.job import RAY_PROCESSES
from swerl_plan.memory import GIB
from swerl_trainer.plan import read_job

JOB = read_job(Path(__file__).parents[3] / "examples/swerljob-judge-8b.yaml")
POLICY, JUDGE = known_shape("Qwen/Qwen3-8B"), known_shape("Qwen/Qwen3-4B")


def plan_with(
    spec: SweRLJobSpec = JOB, *, limit: str | None = None, machines: Machines | None = None
) -> tuple[SweRLJobSpec, JobPlan]:
    assert POLICY is not None
    resources = Resources(limits={"memory": limit} if limit else {})
    spec = spec.model_copy(update={"rollout": spec.rollout.model_copy(update={"resources": resources})})
    plan = plan_job(spec, POLICY, machines or Machines(), JUDGE)
    assert plan is not None
    return spec, plan


def on_cpu(spec: SweRLJobSpec) -> SweRLJobSpec:
    rollout = spec.rollout.model_copy(update={"gpus_per_engine": 0})
    assert isinstance(spec.judge, JudgeSpec)
    judge = spec.judge.model_copy(update={"gpus_per_engine": 0})
    return spec.model_copy(update={"rollout": rollout, "judge": judge})


def test_pod_of_an_engine_with_gpus_needs_a_process_for_each() -> None:
    assert JOB.judge is not None
    _, plan = plan_with()
    assert plan.engine_pods == {
        "engine": JOB.rollout.gpus_per_engine * GPU_PROCESS + RAY_PROCESSES,
        "judge": JOB.judge.gpus_per_engine * GPU_PROCESS + RAY_PROCESSES,
    }


def test_pod_of_an_engine_without_gpus_holds_the_weights() -> None:
    assert POLICY is not None and JUDGE is not None
    spec, plan = plan_with(on_cpu(JOB))
    assert plan.engine_pods == {
        "engine": 2 * POLICY.parameters + CPU_PROCESS + RAY_PROCESSES,
        "judge": 2 * JUDGE.parameters + CPU_PROCESS + RAY_PROCESSES,
    }
    assert "engines  8, each with 15.3 GiB of weights, 18 GiB of a Pod's host\n" in plan_text(spec, POLICY, plan)


def test_shared_pods_count_engines_among_the_trainers() -> None:
    _, plan = plan_with(JOB.model_copy(update={"colocate": True}))
    assert plan.engine_pods.keys() == {"judge"}


@pytest.mark.parametrize(("limit", "warned"), [("12Gi", ["an engine", "a judge"]), ("40Gi", ["a judge"]), ("64Gi", [])])
def test_lower_limit_is_a_warning_for_each_role(limit: str, warned: list[str]) -> None:
    _, plan = plan_with(limit=limit)
    assert [warning.partition(" Pod needs about ")[0] for warning in plan.warnings] == warned
    assert all(warning.endswith(f"has {limit[:2]}.0 GiB (rollout.resources)") for warning in plan.warnings)
    assert plan.problems == ()


def test_smaller_node_is_a_warning_too() -> None:
    _, plan = plan_with(machines=Machines(host_memory=200 * GIB))
    assert plan.warnings == ()
    _, plan = plan_with(machines=Machines(host_memory=20 * GIB))
    assert any(warning.startswith("a judge Pod needs about 48.5 GiB") for warning in plan.warnings)
