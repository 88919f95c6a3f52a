"""Sources and outputs as volumes of one Pod."""

from __future__ import annotations

from swerl_api import SourceSpec
from swerl_api.volumes import OutputVolume
from swerl_operator.jobs.sources import place_output, place_source, together


def claim(name: str, path: str = "") -> SourceSpec:
    return SourceSpec.model_validate({"persistentVolumeClaim": {"claimName": name, "path": path}})


def test_a_claim_named_often_is_one_volume() -> None:
    output = OutputVolume.model_validate({"persistentVolumeClaim": {"claimName": "shared"}})
    parts = [
        place_source("model", "/model", claim("shared", "qwen")),
        place_source("tasks", "/tasks", claim("shared", "swe")),
        place_source("judge", "/judge", claim("other")),
        place_output("/output", output),
    ]
    whole = together(parts)
    assert whole.volumes == [
        {"name": "model", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "judge", "persistentVolumeClaim": {"claimName": "other", "readOnly": True}},
    ]
    assert [(m["name"], m["mountPath"], m.get("subPath"), m.get("readOnly", False)) for m in whole.mounts] == [
        ("model", "/model", "qwen", True),
        ("model", "/tasks", "swe", True),
        ("judge", "/judge", None, True),
        ("model", "/output", None, False),
    ]
    assert together(parts) == whole, "the parts are as they were"
