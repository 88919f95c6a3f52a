"""What is made for a SweEval: its file and account, the preflight, the engines' cluster, the Jobs.

Guarantees: pure functions of the evaluation; tasks, which hold the solutions, stand in the shards' Pods only; a shard's
Pod that a lost node or an eviction ended is made again without counting as a try, and never before the old one has
ended; wrong input (exit code 2) is not tried again.
"""

from __future__ import annotations

import json

from swerl_api import Resources, SweEvalSpec
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

from ..jobs.attempt import Object
from ..jobs.preflight import checking_pod
from ..jobs.ray_jobs import Submission
from ..jobs.raycluster import GPU_ENVIRONMENT, Group, Plan, container_environment, pull_secrets, tolerations
from ..jobs.sources import (
    RESTRICTED,
    Placed,
    place_config_map,
    place_output,
    place_output_folder,
    place_shared_memory,
    place_source,
    together,
)
from .evaluation import Evaluation, Served

FILE = f"{JOB_FILE_DIRECTORY}/{EVALUATION_FILE}"
SHARD_COMMAND = ["python", "-m", "swerl_agent.cli", "eval", "job", "--config", FILE]
SERVING = f"python -m swerl_trainer.serving --config {FILE}"
GRACE_SECONDS = 30  # from SIGTERM to SIGKILL: a shard removes its sandboxes on the way out
EXIT_USAGE = 2
UNKNOWN_MODEL = "nothing starts before the model is known"
MERGE_RESOURCES = Resources(requests={"cpu": "100m", "memory": "256Mi"})


def config_map(evaluation: Evaluation) -> Object:
    """ConfigMap with evaluation.json: everything its processes are told, defaults written out."""
    content = evaluation.file().model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": evaluation.metadata(evaluation.config_name),
        "data": {EVALUATION_FILE: json.dumps(content, indent=1, sort_keys=True)},
    }


def preflight_pod(evaluation: Evaluation) -> Object:
    """The Pod that tries both images, every source and the API key's Secret."""
    served, rollout = evaluation.served, evaluation.spec.rollout
    assert served is not None, UNKNOWN_MODEL
    metadata = evaluation.metadata(evaluation.preflight_name, ROLE_PREFLIGHT)
    sources = {"tasks": evaluation.spec.tasks.source} | ({"model": served.source} if served.source else {})
    others = {"engines": rollout} if rollout and rollout.image != evaluation.spec.image else {}
    return checking_pod(metadata, "shards", evaluation.spec, sources, others, env=_api_key(evaluation.spec))


def engines_plan(evaluation: Evaluation) -> Plan:
    """The engines' RayCluster: a head with the router, and one Pod per engine."""
    rollout, served = evaluation.spec.rollout, evaluation.served
    assert rollout is not None and served is not None, UNKNOWN_MODEL
    places = [
        *_common_places(evaluation),
        place_shared_memory(rollout.shared_memory),
        *_model_places(served),
    ]
    if served.volume is not None:
        places.append(place_output(CHECKPOINTS_PATH, served.volume, name="checkpoints"))
    gpus = rollout.gpus_per_engine
    cuda = GPU_ENVIRONMENT if gpus else {}
    head = Group(
        "head", ROLE_DRIVER, 1, 0, rollout.head_resources, {}, places, "rollout.headResources",
        ports={"router": ROUTER_PORT},
    )  # fmt: skip
    engines = Group(
        "engine", ROLE_ENGINE, rollout.engines, gpus, rollout.resources, {ENGINE_RESOURCE: 1}, places, "rollout", cuda
    )
    metadata = evaluation.metadata(evaluation.cluster_name)
    return Plan(metadata, evaluation.labels(), evaluation.account, rollout, "rollout", [head, engines])


def serving(evaluation: Evaluation, failures: int) -> Submission:
    """The process that keeps the engines, after they were lost `failures` times."""
    metadata = {"evaluation": evaluation.name, "namespace": evaluation.namespace}
    return Submission(submission_id(evaluation.uid, failures), SERVING, metadata)


def shards_job(evaluation: Evaluation) -> Object:
    """The Indexed Job: each index makes its share of the attempts."""
    spec = evaluation.spec
    share = f"$(JOB_COMPLETION_INDEX)/{spec.shards}"
    places = _shard_places(evaluation)
    body = _job(evaluation, evaluation.shards_name, ROLE_SHARD, ["--shard", share], spec.resources, places)
    body["spec"]["template"]["spec"]["containers"][0]["env"] += _api_key(spec)
    body["spec"] |= {
        "completionMode": "Indexed",
        "completions": spec.shards,
        "parallelism": min(spec.parallelism or spec.shards, spec.shards),
        "backoffLimitPerIndex": spec.retries,
    }
    return body


def merge_job(evaluation: Evaluation) -> Object:
    """The Job that puts the results of all shards together."""
    body = _job(evaluation, evaluation.merge_name, ROLE_MERGE, ["--merge"], MERGE_RESOURCES, _common_places(evaluation))
    body["spec"]["backoffLimit"] = evaluation.spec.retries
    return body


def _job(
    evaluation: Evaluation, name: str, role: str, arguments: list[str], resources: Resources, places: list[Placed]
) -> Object:
    placed, spec = together(places), evaluation.spec
    container = {
        "name": role,
        "image": spec.image,
        "command": [*SHARD_COMMAND, *arguments],
        **container_environment(spec, {"PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}),
        "resources": resources.model_dump(by_alias=True),
        "securityContext": RESTRICTED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": placed.mounts,
    }
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "enableServiceLinks": False,
        "serviceAccountName": evaluation.account,
        "automountServiceAccountToken": True,
        "nodeSelector": spec.node_selector,
        "tolerations": tolerations(spec),
        "imagePullSecrets": [{"name": secret} for secret in pull_secrets(spec, placed)],
        "initContainers": placed.init_containers,
        "containers": [container],
        "volumes": placed.volumes,
    }
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    wrong = {"action": "FailJob", "onExitCodes": {"containerName": role, "operator": "In", "values": [EXIT_USAGE]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": evaluation.metadata(name, role),
        "spec": {
            "podReplacementPolicy": "Failed",  # two processes must never write the same folder
            "podFailurePolicy": {"rules": [ignored, wrong]},
            "template": {"metadata": {"labels": evaluation.labels(role)}, "spec": pod},
        },
    }


def _common_places(evaluation: Evaluation) -> list[Placed]:
    return [
        place_config_map("evaluation", JOB_FILE_DIRECTORY, evaluation.config_name),
        place_output(OUTPUT_PATH, evaluation.spec.output.volume),
    ]


def _shard_places(evaluation: Evaluation) -> list[Placed]:
    spec, served = evaluation.spec, evaluation.served
    assert served is not None, UNKNOWN_MODEL
    places = [
        *_common_places(evaluation),
        *_model_places(served),
        place_source("tasks", TASKS_PATH, spec.tasks.source),
    ]
    if spec.agent.prompt_templates is not None:
        places.append(place_config_map("prompts", PROMPTS_PATH, spec.agent.prompt_templates.config_map.name))
    return places


def _model_places(served: Served) -> list[Placed]:
    """The model's folder, if there is one; what its SweRLJob has downloaded lies beside the checkpoint."""
    if served.source is None:
        return []
    hub = served.source.hugging_face
    if hub is None or served.volume is None:
        return [place_source("model", MODEL_PATH, served.source)]
    return [place_output_folder(MODEL_PATH, served.volume, model_folder(hub.id, hub.revision), name="model")]


def _api_key(spec: SweEvalSpec) -> list[Object]:
    """The environment that holds the endpoint's API key, if it wants one."""
    secret = spec.model.endpoint.api_key_secret if spec.model.endpoint else None
    if secret is None:
        return []
    return [{"name": API_KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}]
