"""Pod statuses as Kubernetes writes them, and what they mean for people."""

from __future__ import annotations

from typing import Any

from swerl_operator.checks.pods import cluster_problem, disrupted_pods, missing_pods, pod_problem, sidecars_not_ready
from swerl_operator.checks.preflight import read_preflight
from swerl_operator.jobs.manifests import attempt_preflight
from swerl_operator.problem import Problem

from tests.unit.operator.conftest import MakeAttempt


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo-1-head"}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "ray-head", "image": "trainer:1", "state": {"waiting": {"reason": reason, "message": message}}}


def test_image_that_cannot_be_pulled_is_reported() -> None:
    problem = pod_problem([pod(), pod(containerStatuses=[waiting("ImagePullBackOff", "not found")])])
    assert problem is not None and problem.reason == "ImagePullFailed"
    assert "trainer:1" in problem.message and "not found" in problem.message


def test_failed_copy_is_reported_with_source_and_log_command() -> None:
    state = {"terminated": {"exitCode": 1}}
    problem = pod_problem([pod(initContainerStatuses=[{"name": "copy-tasks", "image": "data:1", "state": state}])])
    assert problem is not None and problem.reason == "SourceCopyFailed"
    assert "kubectl logs demo-1-head -c copy-tasks" in problem.message


def test_unschedulable_pod_is_reported_with_the_schedulers_message() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    problem = pod_problem([pod(conditions=[condition])])
    assert problem is not None and problem.reason == "PodUnschedulable" and "0/1 nodes" in problem.message


def test_starting_container_is_no_problem() -> None:
    assert pod_problem([pod(containerStatuses=[waiting("ContainerCreating")])]) is None


def test_preflight_checks_each_images_paths(make_attempt: MakeAttempt) -> None:
    containers = {c["name"]: c for c in attempt_preflight(make_attempt())["spec"]["containers"]}
    assert containers["model"]["command"][-1] == "/data/model"
    assert containers["trainer"]["command"][-1] == "/preflight/tasks/train"


def test_preflight_mounts_a_claim_once_however_many_sources_are_on_it(make_attempt: MakeAttempt) -> None:
    sources = {path: {"persistentVolumeClaim": {"claimName": "data", "path": path}} for path in ("model", "train")}
    attempt = make_attempt(model={"source": sources["model"]}, tasks={"source": sources["train"]})
    spec = attempt_preflight(attempt)["spec"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]] == ["data"]
    [trainer] = [container for container in spec["containers"] if container["name"] == "trainer"]
    assert trainer["command"][-2:] == ["/preflight/data/model", "/preflight/data/train"]
    assert [mount["mountPath"] for mount in trainer["volumeMounts"]] == ["/preflight/data"]


def test_preflight_brings_models_to_the_output_before_gpus_are_taken(make_attempt: MakeAttempt) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    sources = {"model": {"source": {"huggingFace": {"id": "Qwen/Qwen3-4B"}}}, "tasks": {"source": claim}}
    attempt = make_attempt(**sources, checkpoint={"volume": claim}, trainer={"image": "t", "env": {"HF_ENDPOINT": "x"}})
    spec = attempt_preflight(attempt)["spec"]
    [trainer] = spec["containers"]
    assert "python -m swerl_trainer.driver.download --job /etc/swerl/job.json" in trainer["command"][2]
    assert trainer["env"] == [{"name": "HF_ENDPOINT", "value": "x"}]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in trainer["volumeMounts"]}
    assert mounts == {"/preflight/data": True, "/etc/swerl": True, "/swerl/output": False}
    assert [volume.get("persistentVolumeClaim") for volume in spec["volumes"]] == [{"claimName": "data"}, None]
    assert "nvidia.com/gpu" not in str(trainer["resources"])


def test_failed_download_gives_its_own_words(make_attempt: MakeAttempt) -> None:
    manifest = attempt_preflight(make_attempt())
    ended = {"terminated": {"exitCode": 3, "message": "download failed: model.source: no such repository"}}
    entry = {"name": "trainer", "image": "t", "state": ended}
    found = read_preflight(manifest | {"status": {"containerStatuses": [entry]}}, manifest)
    assert found.problem == Problem("DownloadFailed", "download failed: model.source: no such repository")


def test_result_of_the_download_is_the_message_of_the_pods_image(make_attempt: MakeAttempt) -> None:
    manifest = attempt_preflight(make_attempt())
    ended: list[Any] = [
        {"name": one["name"], "image": "i", "state": {"terminated": {"exitCode": 0, "message": one["name"]}}}
        for one in reversed(manifest["spec"]["containers"])
    ]
    found = read_preflight(manifest | {"status": {"containerStatuses": ended}}, manifest)
    assert (found.state, found.message) == ("passed", "trainer")


def test_preflight_distinguishes_a_missing_path_from_a_changed_job(make_attempt: MakeAttempt) -> None:
    manifest = attempt_preflight(make_attempt())
    ended = {"terminated": {"exitCode": 1, "message": "path /data/model does not exist\n"}}
    entry = {"name": "model", "image": "data:1", "state": ended}
    failed = read_preflight(manifest | {"status": {"phase": "Failed", "containerStatuses": [entry]}}, manifest)
    assert failed.state == "failed" and failed.problem is not None
    assert "path /data/model does not exist" in failed.problem.message
    changed = attempt_preflight(make_attempt(trainer={"image": "trainer:2"}))
    assert read_preflight(manifest, changed).state == "outdated"


def test_preflight_is_over_when_its_own_containers_are(make_attempt: MakeAttempt) -> None:
    manifest = attempt_preflight(make_attempt())
    own_containers: list[Any] = [
        {"name": container["name"], "image": "i", "state": {"terminated": {"exitCode": 0}}}
        for container in manifest["spec"]["containers"]
    ]
    sidecar = {"name": "istio-proxy", "image": "proxy", "state": {"running": {}}}

    def state(*containers: Any) -> str:
        return read_preflight(manifest | {"status": {"containerStatuses": [*containers]}}, manifest).state

    assert state(sidecar, *own_containers) == "passed"
    assert state(sidecar, *own_containers[1:]) == "waiting"
    killed = sidecar | {"state": {"terminated": {"exitCode": 137}}}
    assert state(killed, *own_containers) == "passed", "the end of a sidecar says nothing about the sources"


def test_preflight_needs_the_secrets_of_the_pods_that_it_precedes(make_attempt: MakeAttempt) -> None:
    attempt = make_attempt(trainer={"image": "t", "envFromSecrets": ["hub"]})
    containers = {container["name"]: container for container in attempt_preflight(attempt)["spec"]["containers"]}
    assert containers["trainer"]["envFrom"] == [{"secretRef": {"name": "hub"}}]
    assert "envFrom" not in containers["model"]


def test_pod_that_admission_refuses_is_reported_in_its_words() -> None:
    message = "pods is forbidden: exceeded quota: gpus"
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreateHeadPod", "message": message}
    cluster = {"metadata": {"name": "demo-1"}, "status": {"conditions": [condition]}}
    problem = cluster_problem(cluster, [])
    assert problem is not None and problem.reason == "PodRefused"
    assert message in problem.message and "RayCluster demo-1" in problem.message
    cluster["status"] = {"conditions": [condition | {"status": "False"}]}
    assert cluster_problem(cluster, []) is None


def test_container_that_others_added_and_that_is_not_ready_is_named() -> None:
    head_status, sidecar = {"name": "ray-head", "ready": False}, {"name": "istio-proxy", "ready": False}
    (named,) = sidecars_not_ready([pod(containerStatuses=[sidecar, head_status])], "ray-")
    assert "istio-proxy" in named and "demo-1-head" in named
    assert sidecars_not_ready([pod(containerStatuses=[sidecar | {"ready": True}, head_status])], "ray-") == []


def test_failed_container_of_a_template_is_reported_with_its_log_command() -> None:
    state = {"terminated": {"exitCode": 3}}
    problem = pod_problem([pod(initContainerStatuses=[{"name": "tune", "image": "tune:1", "state": state}])])
    assert problem is not None and problem.reason == "ContainerStartFailed"
    assert "exit code 3" in problem.message and "kubectl logs demo-1-head -c tune" in problem.message
    waiting_for_head = {"name": "wait-for-head", "image": "t:1", "state": {"terminated": {"exitCode": 137}}}
    assert pod_problem([pod(initContainerStatuses=[waiting_for_head])]) is None


def ray_pod(name: str, group: str, *, ready: bool = False, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    phase = "Running" if ready else "Pending"
    metadata = {"name": name, "labels": {"ray.io/group": group}}
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions} | status}


def test_missing_ray_pods_are_named_by_group_with_what_they_wait_for() -> None:
    groups = [{"groupName": "train", "replicas": 2}, {"groupName": "engine", "replicas": 4}]
    cluster = {"metadata": {"name": "demo-1"}, "spec": {"workerGroupSpecs": groups}}
    copying = {"name": "copy-model", "state": {"running": {}}}
    pods = [
        ray_pod("head", "headgroup", ready=True),
        ray_pod("train-a", "train", ready=True),
        ray_pod("train-b", "train", initContainerStatuses=[copying]),
        ray_pod("engine-a", "engine", containerStatuses=[waiting("ImagePullBackOff")]),
        ray_pod("engine-b", "engine", ready=True),
    ]
    assert missing_pods(cluster, pods) == [
        "train 1 of 2 (Pod train-b is Pending: copy-model runs, not ready)",
        "engine 1 of 4 (Pod engine-a is Pending: ray-head ImagePullBackOff, 2 not created)",
    ]
    assert missing_pods(cluster | {"spec": {}}, pods[:1]) == []


def test_pod_that_the_cluster_takes_has_the_clusters_words() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempting"}
    assert disrupted_pods([pod(), pod(conditions=[target])]) == [
        "Pod demo-1-head leaves its node: PreemptionByScheduler: preempting"
    ]
    assert disrupted_pods([pod(conditions=[target | {"status": "False"}])]) == []
    for reason in ("Evicted", "NodeShutdown"):
        ended = pod(phase="Failed", reason=reason, message="the node was low on memory")
        assert disrupted_pods([ended]) == [f"Pod demo-1-head left its node: {reason}: the node was low on memory"]


def test_missing_pod_says_that_the_cluster_took_it() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    labels = {"ray.io/group": "headgroup"}
    taken = pod(phase="Running", conditions=[target])
    taken["metadata"] |= {"labels": labels, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert missing_pods({}, [taken]) == [
        "head 0 of 1 (Pod demo-1-head leaves its node: EvictionByEvictionAPI: evicting)"
    ]
