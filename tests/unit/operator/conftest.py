"""A valid job and an attempt of it, for tests that change one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swerl_api import SweRLJobSpec
from swerl_operator.jobs.attempt import Attempt

Spec = dict[str, Any]
MakeAttempt = Callable[..., Attempt]


@pytest.fixture
def spec() -> Spec:
    return {
        "model": {"source": {"image": {"reference": "data:1", "path": "/data/model"}}, "dtype": "float32"},
        "tasks": {"source": {"persistentVolumeClaim": {"claimName": "tasks", "path": "train"}}},
        "evaluation": {"source": {"configMap": {"name": "held-out"}}},
        "trainer": {"image": "trainer:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}},
    }


@pytest.fixture
def make_attempt(spec: Spec) -> MakeAttempt:
    def make(number: int = 1, **changes: Any) -> Attempt:
        return Attempt("ns", "demo", "uid-1", number, SweRLJobSpec.model_validate(spec | changes))

    return make
