"""Pydantic model → structural OpenAPI schema of a CRD.

Guarantees: no $ref, no title, no anyOf besides int-or-string; `X | None` becomes an optional X. The schema contains
every default; defaults of nested objects are written out in full, because the API server evaluates rules on them.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .base import ApiModel, Rule

Schema = dict[str, Any]
_KEPT_FROM_FIELD = ("description", "default", "x-kubernetes-validations", "format")
_TYPES_WITH_FORMAT = {"integer": "int64"}


def structural_schema(model: type[ApiModel]) -> Schema:
    """Schema of `model` as CustomResourceDefinition v1 wants it, keys in the order of the fields."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(raw.get("$defs", {}), _models_by_name(model)).convert(raw, model)


class _Converter:
    def __init__(self, definitions: Schema, models: dict[str, type[ApiModel]]) -> None:
        self._definitions = definitions
        self._models = models

    def convert(self, node: Schema, model: type[ApiModel] | None = None) -> Schema:
        if "$ref" in node:
            name = node["$ref"].rsplit("/", 1)[1]
            target = self.convert(self._definitions[name], self._models.get(name))
            return self._overlay(target, node)
        if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
            options = [option for option in node["anyOf"] if option.get("type") != "null"]
            if len(options) != 1:
                raise ValueError(f"a structural schema has no union, found {node['anyOf']}")
            return self._overlay(self.convert(options[0]), node)
        if node.get("type") == "object" and "properties" in node:
            return self._object(node, model)
        return self._scalar_or_collection(node)

    def _object(self, node: Schema, model: type[ApiModel] | None) -> Schema:
        schema: Schema = {"type": "object"}
        if "description" in node:
            schema["description"] = _one_line(node["description"])
        if node.get("required"):
            schema["required"] = list(node["required"])
        fields = _fields_by_alias(model)
        schema["properties"] = {
            name: self._property(child, fields.get(name)) for name, child in node["properties"].items()
        }
        if model is not None and model.cel_rules:
            schema["x-kubernetes-validations"] = [_cel(rule) for rule in model.cel_rules]
        return schema

    def _property(self, node: Schema, field: FieldInfo | None) -> Schema:
        schema = self.convert(node)
        if field is not None and field.default_factory is not None:
            value = field.get_default(call_default_factory=True, validated_data={})
            schema["default"] = _plain_default(value)
        return schema

    def _scalar_or_collection(self, node: Schema) -> Schema:
        schema = {key: value for key, value in node.items() if key not in ("title", "const")}
        if "const" in node:
            schema["enum"] = [node["const"]]
        if "description" in schema:
            schema["description"] = _one_line(schema["description"])
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if bound in schema:
                schema[limit], schema[bound] = schema[bound], True
        if schema.get("default", 0) is None:
            del schema["default"]
        if isinstance(schema.get("items"), dict):
            schema["items"] = self.convert(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            schema["additionalProperties"] = self.convert(schema["additionalProperties"])
        if schema.get("additionalProperties") is True:
            del schema["additionalProperties"]
        schema.pop("propertyNames", None)
        if schema.get("type") in _TYPES_WITH_FORMAT:
            schema.setdefault("format", _TYPES_WITH_FORMAT[schema["type"]])
        return schema

    def _overlay(self, target: Schema, node: Schema) -> Schema:
        """`target` with the field's own metadata; the rules of both apply."""
        merged = dict(target)
        for key in _KEPT_FROM_FIELD:
            if node.get(key) is None:
                continue
            value = _one_line(node[key]) if key == "description" else node[key]
            merged[key] = [*target.get(key, []), *value] if key == "x-kubernetes-validations" else value
        return merged


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cel(rule: Rule) -> Schema:
    schema = {"rule": rule.expression, "message": rule.message}
    return schema | ({"fieldPath": rule.field_path} if rule.field_path else {})


def _plain_default(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def _fields_by_alias(model: type[ApiModel] | None) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _models_by_name(model: type[ApiModel]) -> dict[str, type[ApiModel]]:
    """Every ApiModel subclass by class name, as pydantic names its definitions."""
    found: dict[str, type[ApiModel]] = {}
    pending: list[type[ApiModel]] = [ApiModel]
    while pending:
        for subclass in pending.pop().__subclasses__():
            if found.setdefault(subclass.__name__, subclass) is not subclass:
                raise ValueError(f"two API models are named {subclass.__name__}; the schema cannot distinguish them")
            pending.append(subclass)
    return found
