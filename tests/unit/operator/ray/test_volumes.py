"""Sources and outputs as volumes of one Pod."""

from __future__ import annotations

from swerl_api import SourceSpec
from swerl_api.volumes import OutputVolume
from swerl_operator.ray.volumes import merge_volumes, output_volumes, source_volumes


def claim(name: str, path: str = "") -> SourceSpec:
    return SourceSpec.model_validate({"persistentVolumeClaim": {"claimName": name, "path": path}})


def test_repeated_claim_is_one_volume() -> None:
    output = OutputVolume.model_validate({"persistentVolumeClaim": {"claimName": "shared"}})
    parts = [
        source_volumes("model", "/model", claim("shared", "qwen")),
        source_volumes("tasks", "/tasks", claim("shared", "swe")),
        source_volumes("judge", "/judge", claim("other")),
        output_volumes("/output", output),
    ]
    merged = merge_volumes(parts)
    assert merged.volumes == [
        {"name": "model", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "judge", "persistentVolumeClaim": {"claimName": "other", "readOnly": True}},
    ]
    assert [(m["name"], m["mountPath"], m.get("subPath"), m.get("readOnly", False)) for m in merged.mounts] == [
        ("model", "/model", "qwen", True),
        ("model", "/tasks", "swe", True),
        ("judge", "/judge", None, True),
        ("model", "/output", None, False),
    ]
    assert merge_volumes(parts) == merged, "the parts are as they were"
