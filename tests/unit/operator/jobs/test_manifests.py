"""The RayCluster says what DESIGN and KubeRay ask for."""

from __future__ import annotations

import json
from typing import Any

from swerl_operator.jobs.manifests import cluster_plan, job_file
from swerl_operator.ray.accounts import role_binding, service_account
from swerl_operator.ray.cluster import ray_cluster

from tests.unit.operator.conftest import MakeAttempt


def _template(cluster: dict[str, Any], group: str) -> dict[str, Any]:
    spec = cluster["spec"]
    if group == "head":
        head: dict[str, Any] = spec["headGroupSpec"]["template"]
        return head
    worker: dict[str, Any] = next(g["template"] for g in spec["workerGroupSpecs"] if g["groupName"] == group)
    return worker


def _mounts(cluster: dict[str, Any], group: str) -> dict[str, str]:
    return {m["mountPath"]: m["name"] for m in _template(cluster, group)["spec"]["containers"][0]["volumeMounts"]}


def test_cpu_job_is_head_train_and_engine(make_attempt: MakeAttempt) -> None:
    cluster = ray_cluster(cluster_plan(make_attempt(2)))
    assert cluster["metadata"]["name"] == "demo-2"
    assert cluster["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    ray_resources = {g["groupName"]: g["resources"] for g in cluster["spec"]["workerGroupSpecs"]}
    assert ray_resources == {"train": {"train": "1"}, "engine": {"engine": "1"}}
    assert cluster["spec"]["headGroupSpec"]["resources"] == {"rollout": "1"}
    for group in ("head", "train", "engine"):
        labels = _template(cluster, group)["metadata"]["labels"]
        assert labels["swerl.dev/job"] == "demo" and labels["swerl.dev/attempt"] == "2"


def test_solutions_are_only_on_the_head(make_attempt: MakeAttempt) -> None:
    cluster = ray_cluster(cluster_plan(make_attempt()))
    assert {"/swerl/tasks", "/swerl/evaluation", "/swerl/model", "/swerl/output"} <= _mounts(cluster, "head").keys()
    for group in ("train", "engine"):
        assert {"/swerl/model", "/swerl/output", "/etc/swerl", "/dev/shm"} == _mounts(cluster, group).keys()


def test_only_the_head_has_a_token(make_attempt: MakeAttempt) -> None:
    cluster = ray_cluster(cluster_plan(make_attempt()))
    tokens = {g: _template(cluster, g)["spec"]["automountServiceAccountToken"] for g in ("head", "train", "engine")}
    assert tokens == {"head": True, "train": False, "engine": False}
    assert _template(cluster, "head")["spec"]["serviceAccountName"] == "demo-driver"


def test_image_source_is_copied_by_its_own_image(make_attempt: MakeAttempt) -> None:
    pod = _template(ray_cluster(cluster_plan(make_attempt())), "train")["spec"]
    copy, _ = pod["initContainers"]
    assert (copy["name"], copy["image"]) == ("copy-model", "data:1")
    assert copy["command"][-2:] == ["/data/model", "/swerl/model"]


def test_only_workers_wait_for_the_head(make_attempt: MakeAttempt) -> None:
    cluster = ray_cluster(cluster_plan(make_attempt()))
    last = {g: _template(cluster, g)["spec"].get("initContainers", [{}])[-1] for g in ("head", "train", "engine")}
    assert {g: pod.get("name") == "wait-for-head" for g, pod in last.items()} == {
        "head": False,
        "train": True,
        "engine": True,
    }
    assert "$FQ_RAY_IP/6379" in last["train"]["command"][-1]


def test_gpu_ranks_and_engines_have_ray_resources_and_devices(make_attempt: MakeAttempt) -> None:
    trainer = {"image": "t", "replicas": 2, "gpus": 4, "tensorParallel": 4}
    attempt = make_attempt(trainer=trainer, rollout={"engines": 4, "gpusPerEngine": 2})
    groups = {g["groupName"]: g for g in ray_cluster(cluster_plan(attempt))["spec"]["workerGroupSpecs"]}
    assert groups["train"]["resources"] == {"train": "4"} and groups["train"]["replicas"] == 2
    assert groups["engine"]["resources"] == {"engine": "1"} and groups["engine"]["replicas"] == 4
    container = groups["train"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4


def test_pods_without_gpus_have_room_for_the_ranks_that_the_job_names(make_attempt: MakeAttempt) -> None:
    trainer = {"image": "t", "replicas": 2, "cpuRanks": 2, "tensorParallel": 2}
    _, train, _ = cluster_plan(make_attempt(trainer=trainer)).groups
    assert (train.replicas, train.gpus, train.ray_resources) == (2, 0, {"train": 2})
    _, one, _ = cluster_plan(make_attempt()).groups
    assert one.ray_resources == {"train": 1}, "by default one rank"


def test_colocated_engines_run_in_train_pods(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(
        colocate=True, trainer={"image": "t", "replicas": 2, "gpus": 8}, rollout={"engines": 8, "gpusPerEngine": 2}
    )
    _, train = cluster_plan(attempt).groups
    assert train.ray_resources == {"train": 8, "engine": 4}


def test_queue_name_is_a_label_of_the_cluster(make_attempt: MakeAttempt) -> None:
    labels = ray_cluster(cluster_plan(make_attempt(queueName="research")))["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "research"


def test_job_file_has_the_drivers_input(make_attempt: MakeAttempt) -> None:
    file = json.loads(job_file(make_attempt(3))["data"]["job.json"])
    assert (file["name"], file["attempt"], file["lease"], file["uid"]) == ("demo", 3, "demo-3", "uid-1")
    assert file["spec"]["algorithm"]["groupSize"] == 8


def test_account_and_role_binding_are_kept_between_attempts(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(2)
    metadata = attempt.shared_metadata(attempt.account)
    for body in (service_account(metadata), role_binding(metadata, "swe-rl-driver")):
        assert body["metadata"]["name"] == "demo-driver"
        assert "swerl.dev/attempt" not in body["metadata"]["labels"]
