"""What a driver counts over its attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swerl_api import SweRLJobSpec
from swerl_trainer.engines.client import EngineLoad
from swerl_trainer.metrics.driver_metrics import DriverMetrics, gpus_by_role
from swerl_trainer.rollout.group import Rollout

EPISODE = Rollout(
    "g", 0, "t", valid=True, resolved=True, verdict="resolved", commands=5, timeouts=2, seconds={"model": 3.0}
)


def value(metrics: DriverMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"swerl_driver_{name}", {"swerljob": "demo", **labels})


def test_episodes_count_once_by_outcome_from_zero_on() -> None:
    metrics = DriverMetrics("demo", {})
    assert value(metrics, "episodes_total", purpose="train", outcome="resolved") == 0
    metrics.episode("train", EPISODE)
    metrics.episode("evaluation", replace(EPISODE, resolved=False))
    metrics.episode("train", replace(EPISODE, valid=False, verdict=""))
    assert value(metrics, "episodes_total", purpose="train", outcome="resolved") == 1
    assert value(metrics, "episodes_total", purpose="evaluation", outcome="unresolved") == 1
    assert value(metrics, "episodes_total", purpose="train", outcome="infrastructure") == 1
    assert value(metrics, "gradings_total", verdict="resolved", cached="false") == 2, "the third was not graded"
    assert value(metrics, "commands_total", outcome="finished") == 9
    assert value(metrics, "commands_total", outcome="timed_out") == 6
    assert value(metrics, "episode_seconds_sum", part="model") == 9.0
    assert value(metrics, "episode_seconds_count", part="grading") is None


def test_groups_that_are_gone_are_zero() -> None:
    metrics = DriverMetrics("demo", {})
    metrics.groups({"train/running": 3})
    metrics.groups({"train/complete": 2})
    assert value(metrics, "groups", purpose="train", phase="running") == 0
    assert value(metrics, "groups", purpose="train", phase="complete") == 2


def test_writes_of_a_replaced_worker_stay_counted() -> None:
    metrics = DriverMetrics("demo", {})
    for writes in (10, 4, 7):
        metrics.counts({"pending": 1, "ready": 2, "grading": 3, "api_writes": writes})
    assert value(metrics, "api_writes_total") == 13
    assert (value(metrics, "sandboxes", state="ready"), value(metrics, "gradings_running")) == (2, 3)


def test_engines_are_summed_and_keep_their_last_load() -> None:
    metrics = DriverMetrics("demo", {})
    metrics.engines([EngineLoad(3, 1, 0.5), EngineLoad(2, 0, 0.75)])
    metrics.engines([])
    assert value(metrics, "engine_requests", state="running") == 5
    assert value(metrics, "engine_requests", state="waiting") == 1
    assert value(metrics, "engine_cache_usage") == 0.75


def test_gpu_seconds_grow_with_time() -> None:
    now = [100.0]
    metrics = DriverMetrics("demo", {"trainer": 8.0, "engine": 0.0}, clock=lambda: now[0])
    now[0] += 30.0
    assert value(metrics, "gpu_seconds_total", role="trainer") == 240.0
    assert value(metrics, "gpu_seconds_total", role="engine") == 0.0


@pytest.mark.parametrize(("colocate", "roles"), [(False, {"trainer": 16.0, "engine": 16.0}), (True, {"trainer": 16.0})])
def test_colocated_engines_hold_no_gpus_of_their_own(colocate: bool, roles: dict[str, float]) -> None:
    source = {"persistentVolumeClaim": {"claimName": "c", "path": "p"}}
    spec = SweRLJobSpec.model_validate(
        {
            "model": {"source": source},
            "tasks": {"source": source},
            "trainer": {"replicas": 2, "gpus": 8, "image": "i"},
            "rollout": {"engines": 4, "gpusPerEngine": 4},
            "colocate": colocate,
            "checkpoint": {"volume": {"persistentVolumeClaim": {"claimName": "c"}}},
        }
    )
    assert gpus_by_role(spec) == roles
