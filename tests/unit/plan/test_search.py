"""A refused job gets a layout that fits with room, the quickest one, on as few more Pods as possible."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_api import SweRLJobSpec
from swerl_plan import Machines, Models, known_shape, refusal
from swerl_plan.search import ROOM, propose

H100 = Machines(int(79.6 * 2**30))
SHAPE = known_shape("Qwen/Qwen3-32B")


def job(trainer: dict[str, Any], **changes: Any) -> SweRLJobSpec:
    return SweRLJobSpec.model_validate(
        {
            "model": {"source": {"huggingFace": {"id": "Qwen/Qwen3-32B"}}},
            "tasks": {"source": {"configMap": {"name": "t"}}},
            "trainer": {"image": "trainer", "recompute": "full", **trainer},
            "rollout": {"engines": 4, "gpusPerEngine": 4},
            "checkpoint": {"volume": {"hostPath": {"path": "/runs"}}},
            **changes,
        }
    )


def test_same_gpus_are_divided_otherwise() -> None:
    assert SHAPE is not None
    spec = job({"replicas": 4, "gpus": 4, "tensorParallel": 4})
    found = propose(spec, SHAPE, H100)
    assert found is not None and found.plan.layout.pods == 4
    assert found.plan.gpu_peak <= ROOM * (H100.gpu_memory or 0)
    assert "tensorParallel " in str(found) and "offload " in str(found)


def test_host_limit_of_the_pods_is_kept() -> None:
    assert SHAPE is not None
    limited = {"resources": {"limits": {"memory": "400Gi"}}}
    found = propose(job({"replicas": 4, "gpus": 4, "tensorParallel": 4, **limited}), SHAPE, H100)
    assert found is not None and found.plan.host_peak <= ROOM * 400 * 2**30


def test_more_pods_are_proposed_only_when_no_layout_fits() -> None:
    assert SHAPE is not None
    found = propose(job({"replicas": 1, "gpus": 2}, rollout={"engines": 1, "gpusPerEngine": 4}), SHAPE, H100)
    assert found is not None and found.plan.layout.pods > 1


def test_proposal_names_the_chunks_of_a_job_that_has_some() -> None:
    assert SHAPE is not None
    chunks = {"pipelineParallel": 2, "virtualPipeline": 3}  # 64 layers: 6 does not divide them
    found = propose(job({"replicas": 4, "gpus": 4, "tensorParallel": 4, **chunks}), SHAPE, H100)
    assert found is not None and found.changes["virtualPipeline"] == 1


def test_ranks_in_a_pod_without_gpus_need_as_much_host_memory_each() -> None:
    small = known_shape("Qwen/Qwen3-0.6B")
    assert small is not None

    def on_cpu(limit: str, **trainer: Any) -> str | None:
        fields = {"recompute": "none", "resources": {"limits": {"memory": limit}}, **trainer}
        return refusal(job(fields, rollout={"engines": 1}, agent={"contextTokens": 2048}), Models(small), Machines())

    assert on_cpu("40Gi") is None
    text = on_cpu("32Gi", cpuRanks=2)
    assert text is not None and "a trainer Pod needs " in text and "limit or node has 32.0 GiB" in text
    assert "a layout that fits: replicas 1, tensorParallel 2," in text, "the two ranks of the Pod share the weights"


def test_engine_gets_the_gpus_that_its_weights_need() -> None:
    one_gpu_engines = {"engines": 16, "gpusPerEngine": 1}
    spec = job({"replicas": 4, "gpus": 4}, rollout=one_gpu_engines, agent={"contextTokens": 32_768})
    text = refusal(spec, Models(SHAPE), H100)
    assert text is not None
    assert "an engine of 1 GPU(s) has 0.85 of 79.6 GiB for 61.0 GiB of weights" in text
    assert text.endswith("rollout.engines 8, rollout.gpusPerEngine 2")


@pytest.mark.parametrize("models", [Models(None), Models(SHAPE)])
def test_job_that_fits_or_is_not_known_is_not_refused(models: Models) -> None:
    spec = job({"replicas": 4, "gpus": 4, "tensorParallel": 4, "pipelineParallel": 4})
    assert refusal(spec, models, H100) is None


def test_judge_is_planned_too() -> None:
    judge = {"model": {"huggingFace": {"id": "Qwen/Qwen3-4B"}}, "gpusPerEngine": 8, "contextTokens": 65_536}
    spec = job({"replicas": 4, "gpus": 4, "tensorParallel": 4, "pipelineParallel": 4}, judge=judge)
    text = refusal(spec, Models(SHAPE, known_shape("Qwen/Qwen3-4B")), H100)
    assert text is not None and "judge needs 65536 tokens of context, the model has 40960" in text
