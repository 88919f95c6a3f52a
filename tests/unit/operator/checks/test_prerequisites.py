"""Outputs in folders of nodes."""

from __future__ import annotations

from swerl_api.volumes import OutputVolume
from swerl_operator.checks.prerequisites import host_path_problems

FOLDER = OutputVolume.model_validate({"hostPath": {"path": "/etc"}})
CLAIM = OutputVolume.model_validate({"persistentVolumeClaim": {"claimName": "runs"}})


def test_folder_of_a_node_needs_the_administrators_leave() -> None:
    volumes = [("checkpoint.volume", FOLDER), ("output.volume", CLAIM)]
    (problem,) = host_path_problems("refuse", volumes)
    assert problem.reason == "HostPathRefused"
    assert "spec.checkpoint.volume is a hostPath" in problem.message and "hostPathVolumes=allow" in problem.message
    assert host_path_problems("allow", volumes) == []
