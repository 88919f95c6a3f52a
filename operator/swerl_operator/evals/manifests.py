"""What the operator creates for a SweEval: the evaluation file, the preflight Pod, the engines' RayCluster, the Jobs.

Guarantees: pure functions of the evaluation. Only the Pods of shards see tasks, which hold the solutions. A shard's Pod
that a lost node or an eviction ended is replaced after it has ended, and does not count as a retry. Wrong input (exit
code 2) is not retried.
"""

from __future__ import annotations

import json

from swerl_api import RayPodTemplate, Resources, SweEvalSpec
from swerl_api.names import (
    API_KEY_VARIABLE,
    CHECKPOINTS_PATH,
    ENGINE_RESOURCE,
    EVALUATION_FILE,
    JOB_FILE_DIRECTORY,
    MODEL_PATH,
    OUTPUT_PATH,
    PROMPTS_PATH,
    ROLE_DRIVER,
    ROLE_ENGINE,
    ROLE_MERGE,
    ROLE_PREFLIGHT,
    ROLE_SHARD,
    ROUTER_PORT,
    TASKS_PATH,
    model_folder,
    submission_id,
)
from swerl_api.pod_metadata import without_mesh
from swerl_api.pod_security import RESTRICTED, pod_security
from swerl_kube import Json
from swerl_plan.nodes import toleration_manifests

from ..checks.preflight import preflight_pod
from ..ray.cluster import GPU_ENVIRONMENT, RayClusterPlan, RayGroup, container_environment, pull_secrets
from ..ray.credentials import engine_key_variable
from ..ray.jobs import Submission
from ..ray.users import containers_user
from ..ray.volumes import (
    PodVolumes,
    config_map_volumes,
    merge_volumes,
    output_folder_volumes,
    output_volumes,
    shared_memory_volumes,
    source_volumes,
)
from .evaluation import ServedEvaluation, ServedModel

FILE = f"{JOB_FILE_DIRECTORY}/{EVALUATION_FILE}"
SHARD_COMMAND = ["python", "-m", "swerl_agent.cli", "eval", "job", "--config", FILE]
SERVING_COMMAND = f"python -m swerl_trainer.serving --config {FILE}"
GRACE_SECONDS = 30  # from SIGTERM to SIGKILL: a shard removes its sandboxes on the way out
EXIT_USAGE = 2
UNKNOWN_MODEL = "nothing starts before the model is known"
MERGE_RESOURCES = Resources(requests={"cpu": "100m", "memory": "256Mi"})


def config_map(evaluation: ServedEvaluation) -> Json:
    """ConfigMap with evaluation.json: the input of its processes, defaults included."""
    content = evaluation.file().model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": evaluation.metadata(evaluation.config_name),
        "data": {EVALUATION_FILE: json.dumps(content, indent=1, sort_keys=True)},
    }


def evaluation_preflight(evaluation: ServedEvaluation) -> Json:
    """The Pod that checks both images, every source and the API key's Secret."""
    served, rollout = evaluation.served, evaluation.spec.rollout
    assert served is not None, UNKNOWN_MODEL
    metadata = evaluation.metadata(evaluation.preflight_name, ROLE_PREFLIGHT)
    sources = {"tasks": evaluation.spec.tasks.source} | ({"model": served.source} if served.source else {})
    others = {"engines": rollout} if rollout and rollout.image != evaluation.spec.image else {}
    return preflight_pod(
        metadata, "shards", evaluation.spec, sources, others, user=_user(evaluation), env=_api_key(evaluation.spec)
    )


def engines_plan(evaluation: ServedEvaluation) -> RayClusterPlan:
    """The engines' RayCluster: a head with the router, and one Pod per engine."""
    rollout, served = evaluation.spec.rollout, evaluation.served
    assert rollout is not None and served is not None, UNKNOWN_MODEL
    volumes = [
        *_common_volumes(evaluation),
        shared_memory_volumes(rollout.shared_memory),
        *_model_volumes(served),
    ]
    if served.volume is not None:
        volumes.append(output_volumes(CHECKPOINTS_PATH, served.volume, name="checkpoints"))
    gpus = rollout.gpus_per_engine
    cuda = GPU_ENVIRONMENT if gpus else {}
    head = RayGroup(
        "head", ROLE_DRIVER, 1, 0, rollout.head_resources, {}, volumes, "rollout.headResources",
        ports={"router": ROUTER_PORT}, template=rollout.head_pod_template or RayPodTemplate(),
    )  # fmt: skip
    engines = RayGroup(
        "engine", ROLE_ENGINE, rollout.engines, gpus, rollout.resources, {ENGINE_RESOURCE: 1}, volumes, "rollout", cuda,
        template=rollout.pod_template or RayPodTemplate(),
    )  # fmt: skip
    metadata = evaluation.metadata(evaluation.cluster_name)
    return RayClusterPlan(metadata, evaluation.labels(), evaluation.account, rollout, "rollout", [head, engines])


def serving_submission(evaluation: ServedEvaluation, failures: int) -> Submission:
    """The process that runs the engines, after they were lost `failures` times."""
    metadata = {"evaluation": evaluation.name, "namespace": evaluation.namespace}
    return Submission(submission_id(evaluation.uid, failures), SERVING_COMMAND, metadata)


def shards_job(evaluation: ServedEvaluation, secret: str | None = None) -> Json:
    """The Indexed Job: each index runs its shard of the samples. `secret`: with the key of the evaluation's engines."""
    spec = evaluation.spec
    shard = f"$(JOB_COMPLETION_INDEX)/{spec.shards}"
    volumes = _shard_volumes(evaluation)
    body = _job(evaluation, evaluation.shards_name, ROLE_SHARD, ["--shard", shard], spec.resources, volumes)
    body["spec"]["template"]["spec"]["containers"][0]["env"] += [
        *_api_key(spec),
        *([engine_key_variable(secret)] if secret else []),
    ]
    body["spec"] |= {
        "completionMode": "Indexed",
        "completions": spec.shards,
        "parallelism": min(spec.parallelism or spec.shards, spec.shards),
        "backoffLimitPerIndex": spec.retries,
    }
    return body


def merge_job(evaluation: ServedEvaluation) -> Json:
    """The Job that merges the results of all shards."""
    body = _job(
        evaluation, evaluation.merge_name, ROLE_MERGE, ["--merge"], MERGE_RESOURCES, _common_volumes(evaluation)
    )
    body["spec"]["backoffLimit"] = evaluation.spec.retries
    return body


def _job(
    evaluation: ServedEvaluation,
    name: str,
    role: str,
    arguments: list[str],
    resources: Resources,
    volumes: list[PodVolumes],
) -> Json:
    merged, spec = merge_volumes(volumes), evaluation.spec
    container = {
        "name": role,
        "image": spec.image,
        "command": [*SHARD_COMMAND, *arguments],
        **container_environment(spec, {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}),
        "resources": resources.model_dump(by_alias=True),
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": merged.mounts,
    }
    pod: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "securityContext": pod_security(_user(evaluation)),
        "serviceAccountName": evaluation.account,
        "automountServiceAccountToken": True,
        "nodeSelector": spec.node_selector,
        "tolerations": toleration_manifests(spec.tolerations),
        "imagePullSecrets": [{"name": secret} for secret in pull_secrets(spec, merged)],
        "initContainers": merged.init_containers,
        "containers": [container],
        "volumes": merged.volumes,
    }
    ignore_disruptions = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    usage_error = {"containerName": role, "operator": "In", "values": [EXIT_USAGE]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": evaluation.metadata(name, role),
        "spec": {
            "podReplacementPolicy": "Failed",  # two processes must never write the same folder
            "podFailurePolicy": {"rules": [ignore_disruptions, {"action": "FailJob", "onExitCodes": usage_error}]},
            "template": {"metadata": without_mesh({"labels": evaluation.labels(role)}), "spec": pod},
        },
    }


def _user(evaluation: ServedEvaluation) -> int:
    """User of shards and merge, which share files."""
    volumes = merge_volumes(_shard_volumes(evaluation)).volumes
    return containers_user(evaluation.spec, volumes)


def _common_volumes(evaluation: ServedEvaluation) -> list[PodVolumes]:
    return [
        config_map_volumes("evaluation", JOB_FILE_DIRECTORY, evaluation.config_name),
        output_volumes(OUTPUT_PATH, evaluation.spec.output.volume),
    ]


def _shard_volumes(evaluation: ServedEvaluation) -> list[PodVolumes]:
    spec, served = evaluation.spec, evaluation.served
    assert served is not None, UNKNOWN_MODEL
    volumes = [
        *_common_volumes(evaluation),
        *_model_volumes(served),
        source_volumes("tasks", TASKS_PATH, spec.tasks.source),
    ]
    if spec.agent.prompt_templates is not None:
        volumes.append(config_map_volumes("prompts", PROMPTS_PATH, spec.agent.prompt_templates.config_map.name))
    return volumes


def _model_volumes(served: ServedModel) -> list[PodVolumes]:
    """The model's folder, if there is one; its SweRLJob downloads a model beside the checkpoint."""
    if served.source is None:
        return []
    hub = served.source.hugging_face
    if hub is None or served.volume is None:
        return [source_volumes("model", MODEL_PATH, served.source)]
    return [output_folder_volumes(MODEL_PATH, served.volume, model_folder(hub.id, hub.revision), name="model")]


def _api_key(spec: SweEvalSpec) -> list[Json]:
    """The environment variable with the endpoint's API key, if it needs one."""
    secret = spec.model.endpoint.api_key_secret if spec.model.endpoint else None
    if secret is None:
        return []
    return [{"name": API_KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}]
