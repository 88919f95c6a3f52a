"""Outputs in folders of nodes, and sandboxes with a network."""

from __future__ import annotations

from swerl_api import SandboxSpec
from swerl_api.volumes import OutputVolume
from swerl_operator.checks.prerequisites import egress_warning, host_path_problems

FOLDER = OutputVolume.model_validate({"hostPath": {"path": "/etc"}})
CLAIM = OutputVolume.model_validate({"persistentVolumeClaim": {"claimName": "runs"}})


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
