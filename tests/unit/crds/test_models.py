"""The models read what the API server stores and write what it accepts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from swerl_api import (
    JobProgress,
    SandboxCounts,
    SweEvalSpec,
    SweRLJobSpec,
    SweSandboxSpec,
    find_condition,
    set_condition,
)
from swerl_api.swerljob import duration_words

MINIMAL = {
    "model": {"source": {"persistentVolumeClaim": {"claimName": "models", "path": "qwen"}}},
    "tasks": {"source": {"configMap": {"name": "tasks"}}},
    "trainer": {"image": "registry/trainer:1"},
    "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}},
}


def test_minimal_job_gets_its_defaults() -> None:
    spec = SweRLJobSpec.model_validate(MINIMAL)
    assert (spec.algorithm.name, spec.algorithm.group_size, spec.algorithm.lr) == ("grpo", 8, 1e-6)
    assert (spec.agent.step_limit, spec.grading.timeout_seconds, spec.sandbox.max_concurrent) == (20, 600, 128)
    assert (spec.agent.kind, spec.algorithm.encoding) == ("builtin", "sampled")
    reparsed = SweRLJobSpec.model_validate(spec.model_dump(by_alias=True, exclude_none=True))
    assert reparsed == spec


def test_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="groupsize"):
        SweRLJobSpec.model_validate(MINIMAL | {"algorithm": {"groupsize": 4}})


def test_stored_object_of_a_newer_version_is_read() -> None:
    spec = SweRLJobSpec.from_stored(MINIMAL | {"algorithm": {"groupSize": 4, "newer": 1}, "other": {}})
    assert spec.algorithm.group_size == 4
    assert spec.ignored_fields == ("algorithm.newer", "other")
    assert SweRLJobSpec.from_stored(MINIMAL).ignored_fields == ()
    with pytest.raises(ValidationError, match="groupSize"):
        SweRLJobSpec.from_stored(MINIMAL | {"algorithm": {"groupSize": "many", "newer": 1}})


@pytest.mark.parametrize("fields", [{"adamBeta1": 1.0}, {"adamBeta2": 1.0}, {"adamBeta1": -0.1}])
def test_betas_of_adam_are_at_least_0_and_below_1(fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        SweRLJobSpec.model_validate(MINIMAL | {"algorithm": fields})
    spec = SweRLJobSpec.model_validate(MINIMAL | {"algorithm": {"adamBeta1": 0.0, "adamBeta2": 0.999}})
    assert (spec.algorithm.adam_beta1, spec.algorithm.adam_beta2) == (0.0, 0.999)


def test_sandbox_spec_reads_camel_case() -> None:
    spec = SweSandboxSpec.model_validate({"image": "task:1", "taskId": "a__b-1", "lifetimeSeconds": 60})
    assert (spec.task_id, spec.lifetime_seconds, spec.egress) == ("a__b-1", 60, "none")


def test_progress_fills_the_columns() -> None:
    progress = JobProgress(step=3, steps=40, eta_seconds=3900, sandboxes=SandboxCounts(pending=2, ready=6))
    patch = progress.model_dump(by_alias=True, exclude_none=True)
    assert (patch["progress"], patch["eta"]) == ("3/40", "1h05m")
    assert patch["sandboxes"] == {"pending": 2, "ready": 6, "summary": "2/6"}


def test_minimal_evaluation_gets_its_defaults() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    spec = SweEvalSpec.model_validate(
        {
            "model": {"endpoint": {"url": "http://router:30000", "tokenizer": claim}},
            "tasks": {"source": claim},
            "image": "registry/trainer:1",
            "output": {"volume": claim},
        }
    )
    assert (spec.samples, spec.shards, spec.temperature, spec.agent.kind) == (1, 1, 0.0, "builtin")
    assert (spec.tasks.shuffle, spec.tasks.seed, spec.retries) == (False, 42, 3)


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0s"), (40, "40s"), (720, "12m"), (3600, "1h00m")])
def test_duration_words(seconds: int, text: str) -> None:
    assert duration_words(seconds) == text


def test_transition_time_moves_only_with_the_status() -> None:
    first = set_condition([], "Ready", "False", "Creating", time="2030-01-01T00:00:00Z")
    second = set_condition(first, "Ready", "False", "PullingImage", "image x", time="2030-01-01T00:01:00Z")
    third = set_condition(second, "Ready", "True", "AllReady", time="2030-01-01T00:02:00Z")
    times = [c.last_transition_time for step in (first, second, third) for c in step]
    assert times == ["2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "2030-01-01T00:02:00Z"]
    ready = find_condition(third, "Ready")
    assert ready is not None and ready.reason == "AllReady" and len(third) == 1
