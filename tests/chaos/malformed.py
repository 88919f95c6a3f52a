"""Random and malformed specs, drawn from the schema of a CRD and from our examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema
from swerl_api.crd import Kind, crd

Json = dict[str, Any]
T = TypeVar("T")
EXAMPLES = Path(__file__).parents[2] / "examples"
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
LIMITS = BOUNDS | {"pattern", "enum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties"}
OPENAPI_ONLY = {"default", "description", "format", "nullable"}


def generate_specs(kind: Kind, number: int, *, reproducible: bool) -> list[Json]:
    """About `number` specs of `kind`: of the right types, some within all limits, parts of examples, or corrupted."""
    return draw_many(_specs(kind), number, reproducible=reproducible)


def draw_many(strategy: st.SearchStrategy[T], number: int, *, reproducible: bool) -> list[T]:
    """About `number` values of `strategy`; the same ones each time if `reproducible`."""
    cases: list[T] = []

    @settings(
        max_examples=number,
        derandomize=reproducible,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: T) -> None:
        cases.append(case)

    collect()
    return cases


def _specs(kind: Kind) -> st.SearchStrategy[Json]:
    schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    fitting = from_schema(_plain(schema, OPENAPI_ONLY))
    anything = from_schema({})
    blended = st.builds(
        _merge_fields, st.sampled_from(_examples(kind)), fitting, st.sets(st.integers(0, 20), max_size=4)
    )
    corrupted = st.builds(with_value, blended, st.lists(st.integers(0, 9), min_size=1, max_size=4), anything)
    return st.one_of(blended, fitting, from_schema(_plain(schema, OPENAPI_ONLY | LIMITS)), corrupted, anything)


def _examples(kind: Kind) -> list[Json]:
    documents = (each for path in sorted(EXAMPLES.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text()))
    return [document["spec"] for document in documents if document["kind"] == kind.kind]


def _plain(schema: Any, left_out: set[str]) -> Any:
    """The equivalent JSON schema, without the keywords `left_out`."""
    if isinstance(schema, list):
        return [_plain(each, left_out) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _plain(each, left_out) for name, each in value.items()}
        if key == "properties"
        else _plain(value, left_out)
        for key, value in schema.items()
        if key not in left_out and not key.startswith("x-kubernetes-")
    }
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if kept.pop(exclusive, False):  # a flag beside the bound in OpenAPI 3.0, the bound itself in JSON Schema
            kept[exclusive] = kept.pop(bound)
    if kept.get("type") == "object" and "properties" in kept:
        kept.setdefault("additionalProperties", False)  # the API server drops such fields
    return kept


def _merge_fields(good: Json, other: Json, chosen: set[int]) -> Json:
    """`good` with some fields of `other`."""
    return good | {name: value for number, (name, value) in enumerate(sorted(other.items())) if number in chosen}


def with_value(spec: Any, path: list[int], value: Any) -> Any:
    """`spec` with `value` in the place that `path` leads to: at each level the field or item of that number."""
    if not path or not isinstance(spec, dict | list) or not spec:
        return value
    keys: list[Any] = sorted(spec) if isinstance(spec, dict) else list(range(len(spec)))
    key, copy = keys[path[0] % len(keys)], spec.copy()
    copy[key] = with_value(spec[key], path[1:], value)
    return copy
