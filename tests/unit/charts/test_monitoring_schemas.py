"""Monitors and alerts of the chart fit the schemas of prometheus-operator, without a field that these do not have.

monitoring_schemas.json has the `openAPIV3Schema` of `example/prometheus-operator-crd` of prometheus-operator v0.85.0
(Apache-2.0), by kind, without descriptions and status.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from .templates import objects

Json = dict[str, Any]
SCHEMAS: Json = json.loads(Path(__file__).with_name("monitoring_schemas.json").read_text())
PARTS = ("serviceMonitor", "podMonitor", "alerts")
ENABLED: Json = {"metrics": {part: {"enabled": True, "labels": {"release": "prometheus"}} for part in PARTS}}


def strict(schema: Any) -> Any:
    """The schema without the freedom to name fields that it does not have, which the API server would drop."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    if "properties" in schema:
        inner["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
    return inner


def faults(manifest: Json) -> list[str]:
    """What the schema of its kind refuses; metadata is the API server's own."""
    schema = strict(SCHEMAS[manifest["kind"]])
    schema["properties"]["metadata"] = {"type": "object"}
    return [f"{error.json_path}: {error.message}" for error in Draft7Validator(schema).iter_errors(manifest)]


@pytest.fixture
def monitoring(tmp_path: Path) -> dict[str, Json]:
    """The chart's objects for prometheus-operator, by kind."""
    found = objects(tmp_path, json.dumps(ENABLED))
    return {each["kind"]: each for each in found if each["apiVersion"] == "monitoring.coreos.com/v1"}


def test_objects_fit_the_schemas(monitoring: dict[str, Json]) -> None:
    assert monitoring.keys() == SCHEMAS.keys()
    assert {kind: faults(manifest) for kind, manifest in monitoring.items()} == {kind: [] for kind in SCHEMAS}


def test_monitor_of_some_namespaces_fits_too(tmp_path: Path) -> None:
    found = objects(tmp_path, json.dumps(ENABLED | {"namespaces": ["team-a", "team-b"]}))
    [monitor] = [each for each in found if each["kind"] == "PodMonitor"]
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]} and faults(monitor) == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("ServiceMonitor", ("spec", "endpoints", 0, "interval"), "often"),
        ("PodMonitor", ("spec", "podMetricsEndpoints", 0, "ports"), "metrics"),
        ("PodMonitor", ("spec", "selector"), None),
        ("PrometheusRule", ("spec", "groups", 0, "rules", 0, "for"), "2 minutes"),
        ("PrometheusRule", ("spec", "group"), []),
    ],
)
def test_wrong_value_or_field_is_found(
    monitoring: dict[str, Json], kind: str, path: tuple[str | int, ...], value: object
) -> None:
    manifest = copy.deepcopy(monitoring[kind])
    *above, last = path
    place: Any = manifest
    for part in above:
        place = place[part]
    place[last] = value
    assert faults(manifest)
