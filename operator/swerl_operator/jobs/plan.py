"""What the RayCluster of one attempt consists of.

Guarantees: a pure function of the attempt; every Pod sees the model, its own job file and the output, only the head
sees tasks, which hold the solutions.
"""

from __future__ import annotations

from swerl_api.names import (
    ENGINE_RESOURCE,
    EVALUATION_PATH,
    JOB_FILE_DIRECTORY,
    JUDGE_PATH,
    JUDGE_RESOURCE,
    MODEL_PATH,
    OUTPUT_PATH,
    PROMPTS_PATH,
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_TRAIN,
    ROLLOUT_RESOURCE,
    TASKS_PATH,
    TRAIN_RESOURCE,
)

from .attempt import Attempt
from .raycluster import GPU_ENVIRONMENT, Group, Plan
from .sources import Placed, place_config_map, place_output, place_shared_memory, place_source


def plan_of(attempt: Attempt) -> Plan:
    """The attempt's RayCluster."""
    return Plan(
        metadata=attempt.cluster_metadata(),
        labels=attempt.labels(),
        account=attempt.account,
        pods=attempt.spec.trainer,
        spec_field="trainer",
        groups=[_head(attempt), _train(attempt), *_engines(attempt), *_judges(attempt)],
    )


def _head(attempt: Attempt) -> Group:
    spec = attempt.spec
    units = {ROLLOUT_RESOURCE: spec.rollout.workers}
    places = _head_places(attempt)
    return Group("head", ROLE_DRIVER, 1, 0, spec.trainer.head_resources, units, places, "trainer.headResources")


def _train(attempt: Attempt) -> Group:
    spec, trainer = attempt.spec, attempt.spec.trainer
    units = {TRAIN_RESOURCE: max(1, trainer.gpus)}
    if spec.colocate:
        units[ENGINE_RESOURCE] = spec.rollout.engines // trainer.replicas
    memory = {} if spec.colocate else {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    cuda = GPU_ENVIRONMENT | memory if trainer.gpus else {}
    places = _model_places(attempt)
    return Group("train", ROLE_TRAIN, trainer.replicas, trainer.gpus, trainer.resources, units, places, "trainer", cuda)


def _engines(attempt: Attempt) -> list[Group]:
    spec, rollout = attempt.spec, attempt.spec.rollout
    if spec.colocate:
        return []
    units, places = {ENGINE_RESOURCE: 1}, _model_places(attempt)
    return [
        Group(
            "engine", ROLE_ENGINE, rollout.engines, rollout.gpus_per_engine, rollout.resources, units, places, "rollout"
        )
    ]


def _judges(attempt: Attempt) -> list[Group]:
    judge, resources = attempt.spec.judge, attempt.spec.rollout.resources
    if judge is None:
        return []
    units = {JUDGE_RESOURCE: 1}
    places = [*_common_places(attempt), place_source("judge", JUDGE_PATH, judge.model)]
    return [Group("judge", ROLE_ENGINE, judge.engines, judge.gpus_per_engine, resources, units, places, "rollout")]


def _head_places(attempt: Attempt) -> list[Placed]:
    spec = attempt.spec
    places = [*_model_places(attempt), place_source("tasks", TASKS_PATH, spec.tasks.source)]
    if spec.evaluation is not None:
        places.append(place_source("evaluation", EVALUATION_PATH, spec.evaluation.source))
    if spec.agent.prompt_templates is not None:
        places.append(place_config_map("prompts", PROMPTS_PATH, spec.agent.prompt_templates.config_map.name))
    if spec.judge is not None:
        places.append(place_source("judge", JUDGE_PATH, spec.judge.model))
    return places


def _model_places(attempt: Attempt) -> list[Placed]:
    return [*_common_places(attempt), place_source("model", MODEL_PATH, attempt.spec.model.source)]


def _common_places(attempt: Attempt) -> list[Placed]:
    return [
        place_config_map("job", JOB_FILE_DIRECTORY, attempt.name),
        place_output(OUTPUT_PATH, attempt.spec.checkpoint.volume),
        place_shared_memory(attempt.spec.trainer.shared_memory),
    ]
