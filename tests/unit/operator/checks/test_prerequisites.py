"""Outputs in folders of nodes, and sandboxes with a network."""

from __future__ import annotations

from swerl_api import SandboxSpec, SweRLJobSpec
from swerl_api.volumes import OutputVolume
from swerl_operator.checks.prerequisites import egress_warning, floating_warning, host_path_problems

from tests.unit.crds.test_models import MINIMAL

FOLDER = OutputVolume.model_validate({"hostPath": {"path": "/etc"}})
CLAIM = OutputVolume.model_validate({"persistentVolumeClaim": {"claimName": "runs"}})


def test_revision_that_is_no_commit_is_reported_once() -> None:
    def warning(model: str, tasks: str) -> str:
        sources = {"model": {"source": hub("Qwen/Qwen3-4B", model)}, "tasks": {"source": hub("own/tasks", tasks)}}
        return floating_warning(SweRLJobSpec.model_validate(MINIMAL | sources))

    def hub(name: str, revision: str) -> dict[str, object]:
        return {"huggingFace": {"id": name, "revision": revision}}

    assert warning("0" * 40, "a1" * 20) == floating_warning(SweRLJobSpec.model_validate(MINIMAL)) == ""
    assert "revisions float: model.source Qwen/Qwen3-4B@main; set" in warning("main", "0" * 40)
    assert "model.source Qwen/Qwen3-4B@v1, tasks.source own/tasks@main; set" in warning("v1", "main")


def test_folder_of_a_node_needs_the_administrators_leave() -> None:
    volumes = [("checkpoint.volume", FOLDER), ("output.volume", CLAIM)]
    (problem,) = host_path_problems("refuse", volumes)
    assert problem.reason == "HostPathRefused"
    assert "spec.checkpoint.volume is a hostPath" in problem.message and "hostPathVolumes=allow" in problem.message
    assert host_path_problems("allow", volumes) == []


def test_network_of_sandboxes_is_reported() -> None:
    assert egress_warning(SandboxSpec()) == ""
    assert "reach the cluster, its nodes and the Internet" in egress_warning(SandboxSpec(egress="allow"))
    assert "reach public addresses" in egress_warning(SandboxSpec(egress="internet"))
