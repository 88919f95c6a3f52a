"""The CRD manifests are what the models generate, and are structural."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_api.__main__ import DEFAULT_FOLDERS, manifests
from swerl_api.crd import KINDS, Kind, crd


def _nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from _nodes(schema[keyword], f"{path}[{keyword}]")


def _schema(kind: Kind) -> dict[str, Any]:
    version = crd(kind)["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("folder", DEFAULT_FOLDERS, ids=lambda folder: folder.name)
def test_manifests_on_disk_are_the_generated_ones(folder: Path) -> None:
    on_disk = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    assert on_disk == manifests(), "run `python -m swerl_api`"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_node_is_structural(kind: Kind) -> None:
    for path, node in _nodes(_schema(kind)):
        assert not {"$ref", "allOf", "oneOf", "title", "$defs"} & node.keys(), path
        assert ("anyOf" in node) == bool(node.get("x-kubernetes-int-or-string")), path
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert not (node.keys() >= {"properties", "additionalProperties"}), path


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_field_is_described(kind: Kind) -> None:
    root = _schema(kind)["properties"]
    for part in ("spec", "status"):
        for path, node in _nodes(root[part], part):
            for name, child in node.get("properties", {}).items():
                assert child.get("description"), f"{path}.{name}"


def test_resource_names_and_columns_are_stable() -> None:
    job, sandbox, images, evaluation = (crd(kind)["spec"] for kind in KINDS)
    short = [kind["names"]["shortNames"] for kind in (job, sandbox, images, evaluation)]
    assert short == [["swerl"], ["swesb"], ["sweimg"], ["sweeval"]]
    assert "swerl" not in job["names"]["categories"], "a category of the short name's spelling hides the short name"
    columns = [c["name"] for c in job["versions"][0]["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == ["Phase", "Step", "Reward", "Resolved", "Sandboxes", "ETA", "Reason", "Age"]
    columns = [c["name"] for c in sandbox["versions"][0]["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == ["Task", "Ready", "Phase", "Job", "Age"]
    columns = [c["name"] for c in evaluation["versions"][0]["additionalPrinterColumns"] if not c.get("priority")]
    assert columns == ["Phase", "Done", "Resolved", "Rate", "Errors", "Reason", "Age"]


def test_nested_defaults_are_written_out() -> None:
    spec = _schema(KINDS[0])["properties"]["spec"]["properties"]
    assert spec["algorithm"]["default"]["clipHigh"] == 0.28
    assert spec["agent"]["properties"]["observation"]["default"]["maxChars"] == 10_000
    assert yaml.safe_load(manifests()["swerl.dev_swerljobs.yaml"]) == crd(KINDS[0])
