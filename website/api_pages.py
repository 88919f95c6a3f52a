"""A page for each kind of the API, from the schema of its CRD."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from .pages import ROOT
from .tables import cell, table

Schema = dict[str, Any]
HEAD = ("field", "type", "default", "meaning")


def api_pages() -> dict[str, str]:
    """Text of each kind's page by its plural."""
    objects = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    return {crd["spec"]["names"]["plural"]: api_page(crd) for crd in objects}


def api_page(crd: dict[str, Any]) -> str:
    """Every field of a kind: a section for each field of `spec` that is an object, then the status."""
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    columns = ", ".join(f"`{column['name']}`" for column in version["additionalPrinterColumns"])
    api = f"`apiVersion: {crd['spec']['group']}/{version['name']}`"
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    short = ", ".join(f"`{name}`" for name in [names["plural"], *names["shortNames"]])
    return "\n\n".join(
        [
            f"# {names['kind']}",
            f"{cell(schema['description'])} {api}, for kubectl {short}.",
            f"`kubectl get` shows the columns {columns}; `kubectl explain {names['singular']}.spec` these fields.",
            *_sections(spec),
            "## status",
            table(("field", "type", "", "meaning"), _rows(status, "status")),
            "",
        ]
    )


def _sections(spec: Schema) -> Iterator[str]:
    scalars = {name: field for name, field in spec["properties"].items() if "properties" not in field}
    required = [name for name in spec.get("required", []) if name in scalars]
    yield "## spec"
    yield table(HEAD, _rows({"properties": scalars, "required": required}, "spec"))
    yield from _rules(spec)
    for name, field in spec["properties"].items():
        if "properties" in field:
            yield f"## spec.{name}"
            yield cell(field.get("description", ""))
            yield table(HEAD, _rows(field, f"spec.{name}"))
            yield from _rules(field)


def _rows(schema: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    """A row for each field and the fields below it; those of a list's items follow `[]`."""
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        default = f"`{json.dumps(field['default'])}`" if _short(field.get("default")) else ""
        needed = "required" if name in schema.get("required", []) else default
        yield f"`{where}`", _type(field), needed.replace("|", "\\|"), cell(field.get("description", ""))
        yield from _rows(field, where)
        yield from _rows(field.get("items", {}), f"{where}[]")


def _short(default: Any) -> bool:
    """Defaults of objects stand beside their fields."""
    return default is not None and default != "" and not (isinstance(default, dict) and default)


def _type(field: Schema) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if "x-kubernetes-int-or-string" in field:
        kind = "quantity"
    limits = [f"{sign} {field[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in field]
    return " ".join([kind, *limits])


def _rules(schema: Schema) -> Iterator[str]:
    messages = dict.fromkeys(rule["message"] for rule in schema.get("x-kubernetes-validations", []))
    if messages:
        yield "Rules, with the message of the API server:"
        yield "\n".join(f"* {cell(message)}" for message in messages)
