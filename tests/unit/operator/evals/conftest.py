"""Valid evaluations, one with an endpoint and one with engines, for tests that change one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swerl_api import SweEvalSpec, SweRLJobSpec
from swerl_operator.evals.evaluation import ServedEvaluation, served_model, trained_model

Spec = dict[str, Any]
MakeEvaluation = Callable[..., ServedEvaluation]

JOB_SPEC: Spec = {
    "model": {"source": {"image": {"reference": "data:1", "path": "/data/model"}}, "dtype": "float32"},
    "tasks": {"source": {"configMap": {"name": "tasks"}}},
    "trainer": {"image": "trainer:1"},
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "training"}}},
}
CHECKPOINT = "/swerl/output/demo/checkpoints/step-0000012"


@pytest.fixture
def spec() -> Spec:
    return {
        "model": {
            "endpoint": {"url": "http://router:30000", "tokenizer": {"persistentVolumeClaim": {"claimName": "models"}}}
        },
        "tasks": {"source": {"image": {"reference": "data:1", "path": "/data/tasks"}}},
        "image": "trainer:1",
        "output": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}, "path": "evaluations"},
        "shards": 4,
    }


@pytest.fixture
def engine_spec(spec: Spec) -> Spec:
    return spec | {"model": {"job": {"name": "demo"}}, "rollout": {"image": "engines:1", "engines": 2}}


@pytest.fixture
def make_evaluation() -> MakeEvaluation:
    def make(spec: Spec, **changes: Any) -> ServedEvaluation:
        read = SweEvalSpec.model_validate(spec | changes)
        trained = trained_model(SweRLJobSpec.model_validate(JOB_SPEC), CHECKPOINT)
        return ServedEvaluation("ns", "nightly", "uid-1", read, served_model(read) or trained)

    return make
