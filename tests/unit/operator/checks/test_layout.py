"""A known model that does not fit its layout blocks the job, with the numbers and a layout that does."""

from __future__ import annotations

from typing import Any

from swerl_operator.checks.layout import layout_problem
from swerl_plan import Models, known_shape

from tests.unit.operator.conftest import MakeAttempt

H100 = {"nvidia.com/gpu.memory": "81559"}
QWEN = {"source": {"huggingFace": {"id": "Qwen/Qwen3-32B"}}}
ENGINES = {"engines": 1, "gpusPerEngine": 4}


def node(memory: str = "2Ti", **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "status": {"allocatable": {"memory": memory}}}


def trainer(**fields: Any) -> dict[str, Any]:
    return {"image": "t", "gpus": 4, "tensorParallel": 4, "recompute": "full", "offload": True} | fields


def test_gpu_that_would_overflow_is_refused_with_a_layout_that_fits(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(model=QWEN, trainer=trainer(offload=False), rollout=ENGINES).spec
    problem = layout_problem(spec, [node(**H100), node(**H100)])
    assert problem is not None and problem.reason == "LayoutRefused"
    assert "GiB of its GPU's 79.6 GiB at step" in problem.message
    assert "a layout that fits: replicas " in problem.message


def test_size_of_the_gpus_must_be_known(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(model=QWEN, trainer=trainer(), rollout=ENGINES).spec
    assert layout_problem(spec, [node()]) is None
    assert layout_problem(spec, []) is None


def test_host_that_would_overflow_is_refused(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(model=QWEN, trainer=trainer(replicas=4), rollout=ENGINES).spec
    problem = layout_problem(spec, [node("200Gi")])
    assert problem is not None and "its limit or node has 200.0 GiB" in problem.message


def test_division_needs_no_nodes(make_attempt: MakeAttempt) -> None:
    three_gpus = {"engines": 1, "gpusPerEngine": 3}
    spec = make_attempt(model=QWEN, trainer=trainer(gpus=6, tensorParallel=3), rollout=three_gpus).spec
    problem = layout_problem(spec, [])
    assert problem is not None
    assert "attention heads 64 cannot be divided over tensorParallel 3" in problem.message
    assert "rollout.gpusPerEngine 3 cannot divide 64 attention heads" in problem.message


def test_context_beyond_the_model_is_refused(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(model=QWEN, agent={"contextTokens": 65_536}, trainer=trainer(), rollout=ENGINES).spec
    problem = layout_problem(spec, [])
    assert problem is not None and "agent.contextTokens 65536 exceeds the model's 40960 positions" in problem.message


def test_model_from_a_volume_is_left_to_the_driver(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(trainer=trainer(gpus=6, tensorParallel=3), rollout={"engines": 1, "gpusPerEngine": 3}).spec
    assert layout_problem(spec, [node(**H100)]) is None


def test_downloaded_model_is_planned_like_a_known_one(make_attempt: MakeAttempt) -> None:
    wide = {"trainer": trainer(gpus=6, tensorParallel=3), "rollout": {"engines": 1, "gpusPerEngine": 3}}
    other = {"source": {"huggingFace": {"id": "acme/other"}}}
    downloaded = Models(known_shape(QWEN["source"]["huggingFace"]["id"]))
    spec = make_attempt(model=other, **wide).spec
    assert layout_problem(spec, []) is None
    early = layout_problem(make_attempt(model=QWEN, **wide).spec, [])
    assert early is not None and layout_problem(spec, [], downloaded) == early


def test_more_stages_than_layers_are_refused(make_attempt: MakeAttempt) -> None:
    spec = make_attempt(model=QWEN, trainer=trainer(pipelineParallel=128), rollout=ENGINES).spec
    problem = layout_problem(spec, [])
    assert problem is not None and "layers 64 cannot be divided over pipelineParallel 128" in problem.message


def test_engine_argument_that_is_no_number_is_named(make_attempt: MakeAttempt) -> None:
    engines = ENGINES | {"engineArgs": {"mem-fraction-static": "most"}}
    problem = layout_problem(make_attempt(model=QWEN, trainer=trainer(), rollout=engines).spec, [node(**H100)])
    assert problem is not None and problem.message.startswith("spec.rollout.engineArgs: could not convert")
