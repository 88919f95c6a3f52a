"""What the operator creates for one attempt: the job file, the preflight Pod, the RayCluster and its driver.

Guarantees: pure functions of the attempt; every Pod sees the model, its own job file and the output, only the head sees
tasks, which hold the solutions.
"""

from __future__ import annotations

import json

from swerl_api import RayPodTemplate, SourceSpec, SweRLJobSpec
from swerl_api.names import (
    DRIVER_METRICS_PORT_NAME,
    ENGINE_RESOURCE,
    EVALUATION_PATH,
    JOB_FILE,
    JOB_FILE_DIRECTORY,
    JUDGE_PATH,
    JUDGE_RESOURCE,
    METRICS_PORT,
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
from swerl_kube import Json

from ..checks.preflight import PreflightDownload, preflight_pod
from ..ray.cluster import GPU_ENVIRONMENT, RayClusterPlan, RayGroup
from ..ray.jobs import Submission
from ..ray.volumes import PodVolumes, config_map_volumes, output_volumes, shared_memory_volumes, source_volumes
from .attempt import Attempt

DOWNLOAD_COMMAND = ("python", "-m", "swerl_trainer.driver.download", "--job", f"{JOB_FILE_DIRECTORY}/{JOB_FILE}")
ENTRYPOINT = f"python -m swerl_trainer.driver --job {JOB_FILE_DIRECTORY}/{JOB_FILE}"


def submission(attempt: Attempt) -> Submission:
    """The attempt's driver."""
    metadata = {"job": attempt.job, "namespace": attempt.namespace, "attempt": str(attempt.number)}
    return Submission(attempt.submission, ENTRYPOINT, metadata)


def job_file(attempt: Attempt) -> Json:
    """ConfigMap with job.json: the input of the driver, defaults included."""
    content = {
        "name": attempt.job,
        "namespace": attempt.namespace,
        "uid": attempt.uid,
        "attempt": attempt.number,
        "lease": attempt.name,
        "spec": attempt.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": attempt.metadata(attempt.name),
        "data": {JOB_FILE: json.dumps(content, indent=1, sort_keys=True)},
    }


def attempt_preflight(attempt: Attempt) -> Json:
    """The Pod that checks the attempt's images and sources, and brings its models to the output volume."""
    metadata = attempt.metadata(attempt.preflight_name, ROLE_DRIVER)
    trainer, download = attempt.spec.trainer, _download(attempt)
    user = cluster_plan(attempt).user
    return preflight_pod(
        metadata, "trainer", trainer, _sources(attempt), user=user, gpus=trainer.gpus > 0, download=download
    )


def cluster_plan(attempt: Attempt) -> RayClusterPlan:
    """The attempt's RayCluster."""
    return RayClusterPlan(
        metadata=attempt.cluster_metadata(),
        labels=attempt.labels(),
        account=attempt.account,
        pods=attempt.spec.trainer,
        spec_field="trainer",
        groups=[_head(attempt), _train(attempt), *_engines(attempt), *_judges(attempt)],
    )


def _head(attempt: Attempt) -> RayGroup:
    spec = attempt.spec
    ray_resources = {ROLLOUT_RESOURCE: spec.rollout.workers}
    volumes = _head_volumes(attempt)
    return RayGroup(
        "head",
        ROLE_DRIVER,
        1,
        0,
        spec.trainer.head_resources,
        ray_resources,
        volumes,
        "trainer.headResources",
        ports={DRIVER_METRICS_PORT_NAME: METRICS_PORT},
        template=spec.trainer.head_pod_template or RayPodTemplate(),
    )


def _train(attempt: Attempt) -> RayGroup:
    spec, trainer = attempt.spec, attempt.spec.trainer
    ray_resources = {TRAIN_RESOURCE: trainer.ranks_per_pod}
    if spec.colocate:
        ray_resources[ENGINE_RESOURCE] = spec.rollout.engines // trainer.replicas
    memory = {} if spec.colocate else {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    cuda = GPU_ENVIRONMENT | memory if trainer.gpus else {}
    volumes = _model_volumes(attempt)
    return RayGroup(
        "train",
        ROLE_TRAIN,
        trainer.replicas,
        trainer.gpus,
        trainer.resources,
        ray_resources,
        volumes,
        "trainer",
        cuda,
        template=trainer.pod_template or RayPodTemplate(),
    )


def _engines(attempt: Attempt) -> list[RayGroup]:
    spec, rollout = attempt.spec, attempt.spec.rollout
    if spec.colocate:
        return []
    ray_resources, volumes = {ENGINE_RESOURCE: 1}, _model_volumes(attempt)
    return [
        RayGroup(
            "engine",
            ROLE_ENGINE,
            rollout.engines,
            rollout.gpus_per_engine,
            rollout.resources,
            ray_resources,
            volumes,
            "rollout",
            template=rollout.pod_template or RayPodTemplate(),
        )
    ]


def _judges(attempt: Attempt) -> list[RayGroup]:
    judge, rollout = attempt.spec.judge, attempt.spec.rollout
    if judge is None:
        return []
    ray_resources = {JUDGE_RESOURCE: 1}
    volumes = [*_common_volumes(attempt), source_volumes("judge", JUDGE_PATH, judge.model)]
    return [
        RayGroup(
            "judge",
            ROLE_ENGINE,
            judge.engines,
            judge.gpus_per_engine,
            rollout.resources,
            ray_resources,
            volumes,
            "rollout",
            template=rollout.pod_template or RayPodTemplate(),
        )
    ]


def _head_volumes(attempt: Attempt) -> list[PodVolumes]:
    spec = attempt.spec
    volumes = [*_model_volumes(attempt), source_volumes("tasks", TASKS_PATH, spec.tasks.source)]
    if spec.evaluation is not None:
        volumes.append(source_volumes("evaluation", EVALUATION_PATH, spec.evaluation.source))
    if spec.agent.prompt_templates is not None:
        volumes.append(config_map_volumes("prompts", PROMPTS_PATH, spec.agent.prompt_templates.config_map.name))
    if spec.judge is not None:
        volumes.append(source_volumes("judge", JUDGE_PATH, spec.judge.model))
    return volumes


def _model_volumes(attempt: Attempt) -> list[PodVolumes]:
    return [*_common_volumes(attempt), source_volumes("model", MODEL_PATH, attempt.spec.model.source)]


def _common_volumes(attempt: Attempt) -> list[PodVolumes]:
    return [*_job_volumes(attempt), shared_memory_volumes(attempt.spec.trainer.shared_memory)]


def _job_volumes(attempt: Attempt) -> list[PodVolumes]:
    return [
        config_map_volumes("job", JOB_FILE_DIRECTORY, attempt.name),
        output_volumes(OUTPUT_PATH, attempt.spec.checkpoint.volume),
    ]


def downloads_model(spec: SweRLJobSpec) -> bool:
    """Whether the job names a model by its Hugging Face id."""
    models = [spec.model.source, *([spec.judge.model] if spec.judge else [])]
    return any(source.hugging_face is not None for source in models)


def _download(attempt: Attempt) -> PreflightDownload | None:
    if not downloads_model(attempt.spec):
        return None
    return PreflightDownload(DOWNLOAD_COMMAND, _job_volumes(attempt))


def _sources(attempt: Attempt) -> dict[str, SourceSpec]:
    spec = attempt.spec
    sources = {"model": spec.model.source, "tasks": spec.tasks.source}
    if spec.evaluation is not None:
        sources["evaluation"] = spec.evaluation.source
    if spec.judge is not None:
        sources["judge"] = spec.judge.model
    return sources
