"""The objects of a grading Job."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from swerl_agent.grading.manifests import PART_BYTES, PULL_ALLOWANCE, grading_job, payload_maps
from swerl_agent.grading.pods import PodState
from swerl_api import GradingSpec, SandboxSpec
from swerl_api.names import label_value
from swerl_api.pod_metadata import MESH_ANNOTATIONS, MESH_LABELS


def test_large_payload_is_split_without_loss() -> None:
    content = os.urandom(2 * PART_BYTES + 5)
    maps = payload_maps("swegr-x", {"a": b"small", "patch.diff": content, "empty": b""}, {}, [])
    assert [item["metadata"]["name"] for item in maps] == ["swegr-x", "swegr-x-1", "swegr-x-2", "swegr-x-3"]
    assert all(len(json.dumps(item)) < 1 << 20 for item in maps)
    keys = [key for item in maps for key in item["binaryData"]]
    assert sorted(keys) == ["a.000", "empty.000", "patch.diff.000", "patch.diff.001", "patch.diff.002"]


def test_grading_pod_has_no_token_no_privilege_and_guaranteed_resources() -> None:
    job = grading_job(
        "swegr-x", "image", ["base"], ["swegr-x"], settings=GradingSpec(), sandbox=SandboxSpec(), labels={}, owners=[]
    )
    assert job["spec"]["backoffLimit"] == 0
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert container["securityContext"]["runAsUser"] == 0


def test_grading_job_ends_after_the_scripts_time_and_that_of_a_pull() -> None:
    how: dict[str, Any] = {"sandbox": SandboxSpec(), "labels": {}, "owners": []}
    job = grading_job("swegr-x", "image", [], ["swegr-x"], settings=GradingSpec(timeout_seconds=900), **how)
    assert job["spec"]["activeDeadlineSeconds"] == 900 + PULL_ALLOWANCE
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(("text", "label"), [("o__r-1", "o__r-1"), ("a/b" + "c" * 80, "a-b" + "c" * 60), ("_x_", "x")])
def test_labels(text: str, label: str) -> None:
    assert label_value(text) == label


def test_state_of_a_pod_is_that_of_its_grading_container() -> None:
    running, ended = {"running": {}}, {"terminated": {"exitCode": 1, "reason": "Error"}}
    sidecar = {"name": "istio-proxy", "imageID": "proxy@1", "state": running}
    grading_status = {"name": "grading", "imageID": "task@1", "state": ended}
    pod = {"metadata": {"name": "p"}, "status": {"phase": "Running", "containerStatuses": [sidecar, grading_status]}}
    state = PodState.of(pod, deleted=False)
    assert (state.image, state.ended, state.reason) == ("task@1", True, "Error")
    pod["status"]["containerStatuses"] = [sidecar]
    assert not PodState.of(pod, deleted=False).started


def test_grading_pods_opt_out_of_meshes() -> None:
    job = grading_job(
        "g", "i", ["base"], ["g"], settings=GradingSpec(), sandbox=SandboxSpec(), labels={"a": "b"}, owners=[]
    )
    metadata = job["spec"]["template"]["metadata"]
    assert metadata["labels"] == {"a": "b", **MESH_LABELS} and metadata["annotations"] == MESH_ANNOTATIONS


@pytest.mark.parametrize("host_users", [None, True, False])
def test_grading_pod_has_the_user_namespace_of_the_sandboxes(host_users: bool | None) -> None:
    sandbox = SandboxSpec(host_users=host_users)
    how: dict[str, Any] = {"settings": GradingSpec(), "labels": {}, "owners": []}
    pod = grading_job("swegr-x", "image", [], ["swegr-x"], sandbox=sandbox, **how)["spec"]["template"]["spec"]
    assert pod.get("hostUsers") is host_users
