"""What is made for a SweEval says what shards, engines and Kubernetes need."""

from __future__ import annotations

from typing import Any

from swerl_api import EvaluationFile, SweEvalSpec, SweRLJobSpec
from swerl_operator.checks.capacity import cluster_capacity_problem
from swerl_operator.evals import manifests
from swerl_operator.evals.evaluation import ServedEvaluation, trained_model
from swerl_operator.ray.cluster import ray_cluster

from .conftest import CHECKPOINT, JOB_SPEC, MakeEvaluation, Spec


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def _paths(pod: dict[str, Any]) -> set[str]:
    return {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}


def test_each_index_runs_its_shard(spec: Spec, make_evaluation: MakeEvaluation) -> None:
    job = manifests.shards_job(make_evaluation(spec, parallelism=2, retries=5))
    expected = {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimitPerIndex": 5}
    assert expected.items() <= job["spec"].items()
    assert _pod(job)["containers"][0]["command"][-2:] == ["--shard", "$(JOB_COMPLETION_INDEX)/4"]
    assert job["metadata"]["ownerReferences"][0]["kind"] == "SweEval"


def test_pods_are_replaced_after_their_end_and_disruptions_cost_no_retry(
    spec: Spec, make_evaluation: MakeEvaluation
) -> None:
    job = manifests.shards_job(make_evaluation(spec))["spec"]
    assert job["podReplacementPolicy"] == "Failed"
    disruption, usage = job["podFailurePolicy"]["rules"]
    assert (disruption["action"], disruption["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (usage["action"], usage["onExitCodes"]["values"]) == ("FailJob", [2])
    assert _pod({"spec": job})["restartPolicy"] == "Never"


def test_only_shards_mount_the_tasks(engine_spec: Spec, make_evaluation: MakeEvaluation) -> None:
    evaluation = make_evaluation(engine_spec)
    assert "/swerl/tasks" in _paths(_pod(manifests.shards_job(evaluation)))
    assert "/swerl/tasks" not in _paths(_pod(manifests.merge_job(evaluation)))
    cluster = ray_cluster(manifests.engines_plan(evaluation))["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        paths = _paths(group["template"]["spec"])
        assert {"/swerl/model", "/swerl/checkpoints", "/swerl/output", "/etc/swerl", "/dev/shm"} == paths


def test_evaluation_file_has_the_routers_address(engine_spec: Spec, make_evaluation: MakeEvaluation) -> None:
    evaluation = make_evaluation(engine_spec)
    text = manifests.config_map(evaluation)["data"]["evaluation.json"]
    file = EvaluationFile.model_validate_json(text)
    assert file.engine == "http://nightly-engines-head-svc.ns.svc:30000"
    assert file.checkpoint == "/swerl/checkpoints/demo/checkpoints/step-0000012"
    assert (file.dtype, str(file.folder)) == ("float32", "evaluations/nightly")
    head = ray_cluster(manifests.engines_plan(evaluation))["spec"]["headGroupSpec"]["template"]["spec"]
    ports = {port["name"]: port["containerPort"] for port in head["containers"][0]["ports"]}
    assert ports["router"] == 30000


def test_endpoint_is_used_as_it_is(spec: Spec, make_evaluation: MakeEvaluation) -> None:
    file = make_evaluation(spec).file()
    assert (file.engine, file.checkpoint, file.tokenizer) == ("http://router:30000", None, "/swerl/model")


def test_chat_endpoint_has_a_key_and_no_tokenizer(spec: Spec, make_evaluation: MakeEvaluation) -> None:
    endpoint = {"url": "https://api.example.org/v1", "api": "chat-completions", "model": "m"}
    secret = {"apiKeySecret": {"name": "api", "key": "token"}}
    evaluation = make_evaluation(spec, model={"endpoint": endpoint | secret})
    assert (evaluation.file().engine, evaluation.file().tokenizer) == ("https://api.example.org/v1", None)
    shards, merge = _pod(manifests.shards_job(evaluation)), _pod(manifests.merge_job(evaluation))
    assert "/swerl/model" not in _paths(shards)
    preflight = manifests.evaluation_preflight(evaluation)["spec"]
    assert [container["name"] for container in preflight["containers"]] == ["shards", "tasks"]
    expected = {"name": "SWERL_API_KEY", "valueFrom": {"secretKeyRef": {"name": "api", "key": "token"}}}
    for pod in (shards, preflight):
        assert expected in pod["containers"][0]["env"]
    assert expected not in merge["containers"][0]["env"]
    keyless = manifests.evaluation_preflight(make_evaluation(spec, model={"endpoint": endpoint}))["spec"]
    assert "env" not in keyless["containers"][0]


def test_model_downloaded_by_its_job_is_mounted_from_the_jobs_volume(engine_spec: Spec) -> None:
    source = {"huggingFace": {"id": "Qwen/Qwen3-4B"}}
    job = SweRLJobSpec.model_validate(JOB_SPEC | {"model": {"source": source}})
    spec = SweEvalSpec.model_validate(engine_spec)
    evaluation = ServedEvaluation("ns", "nightly", "uid-1", spec, trained_model(job, CHECKPOINT))
    head = ray_cluster(manifests.engines_plan(evaluation))["spec"]["headGroupSpec"]["template"]["spec"]
    for pod in (_pod(manifests.shards_job(evaluation)), head):
        mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
        model = mounts["/swerl/model"]
        assert (model["subPath"], model["readOnly"]) == ("models/Qwen--Qwen3-4B@main", True)
        (volume,) = [volume_ for volume_ in pod["volumes"] if volume_["name"] == model["name"]]
        assert volume["persistentVolumeClaim"]["claimName"] == "training"


def test_engines_are_one_pod_each_and_counted(engine_spec: Spec, make_evaluation: MakeEvaluation) -> None:
    plan = manifests.engines_plan(make_evaluation(engine_spec))
    head, engines = plan.groups
    assert (head.replicas, engines.replicas, engines.ray_resources) == (1, 2, {"engine": 1})
    assert manifests.serving_submission(make_evaluation(engine_spec), 3).id == "uid-1-3"
    eight_gpus = engine_spec | {"rollout": engine_spec["rollout"] | {"gpusPerEngine": 8}}
    node = {"metadata": {}, "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}}}
    problem = cluster_capacity_problem(manifests.engines_plan(make_evaluation(eight_gpus)), [node])
    assert problem is not None and "spec.rollout" in problem.message


def test_account_of_an_evaluation_differs_from_a_jobs(spec: Spec, make_evaluation: MakeEvaluation) -> None:
    evaluation = make_evaluation(spec)
    assert evaluation.account == "nightly.eval-driver"
    assert _pod(manifests.shards_job(evaluation))["serviceAccountName"] == evaluation.account
    assert evaluation.file().labels == {"swerl.dev/job": "nightly.eval", "swerl.dev/evaluation": "nightly"}


def test_preflight_checks_both_images_and_every_source(engine_spec: Spec, make_evaluation: MakeEvaluation) -> None:
    containers = manifests.evaluation_preflight(make_evaluation(engine_spec))["spec"]["containers"]
    assert {c["name"]: c["image"] for c in containers} == {
        "shards": "trainer:1", "engines": "engines:1", "model": "data:1", "tasks": "data:1",
    }  # fmt: skip


def test_objects_of_another_uid_are_not_owned(spec: Spec, make_evaluation: MakeEvaluation) -> None:
    evaluation = make_evaluation(spec)
    job = manifests.shards_job(evaluation)
    assert evaluation.owns(job)
    job["metadata"]["ownerReferences"][0]["uid"] = "uid-0"
    assert not evaluation.owns(job) and not evaluation.owns({"metadata": {}})
