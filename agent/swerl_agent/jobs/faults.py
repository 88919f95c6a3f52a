"""What is wrong with a job file before any cluster is asked: names, fields, types, ranges, the plan of the layout.

Pure. Every fault has the field, its value and a remedy. The rules between fields are CEL rules of the CRD, which the
API server checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import ValidationError
from swerl_api import API_VERSION, SweRLJobSpec
from swerl_api.base import QUANTITY
from swerl_api.swerljob import MAX_JOB_NAME
from swerl_kube import Json
from swerl_plan import Machines, known_models, refusal

from .spelling import remedy_for

Level = Literal["error", "warning"]
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SHOWN_VALUE = 60  # characters
TYPES = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "a text", "list": "a list"}
EXAMPLES = {
    "model": "source: {huggingFace: {id: Qwen/Qwen3-4B}}",
    "model.source": "huggingFace: {id: Qwen/Qwen3-4B}",
    "tasks": "source: {persistentVolumeClaim: {claimName: swe-tasks, path: train}}",
    "tasks.source": "persistentVolumeClaim: {claimName: swe-tasks, path: train}",
    "evaluation.source": "persistentVolumeClaim: {claimName: swe-tasks, path: held-out}",
    "trainer": "image: swe-rl/trainer-gpu:0.1.0",
    "trainer.image": "swe-rl/trainer-gpu:0.1.0",
    "checkpoint": "volume: {persistentVolumeClaim: {claimName: runs}}",
    "checkpoint.volume": "persistentVolumeClaim: {claimName: runs}",
}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong. A warning does not keep the job from being submitted."""

    field: str  # such as spec.algorithm.lr
    value: str  # as the file has it; empty where there is none
    message: str
    remedy: str
    level: Level = "error"

    def as_text(self) -> str:
        """One line: the field, its value, what is wrong, what to do."""
        return f"{' '.join(filter(None, [self.field, self.value]))}: {self.message}; {self.remedy}"

    def as_json(self) -> dict[str, str]:
        """Fields by name."""
        return asdict(self)


def file_faults(job: Json, machines: Machines | None = None) -> list[Fault]:
    """All that is wrong with the object `job`, as far as the file alone shows it."""
    found = [*_head(job), *_name(job.get("metadata") or {})]
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return [*found, Fault("spec", shown(spec), "the job has no spec", "`swerl init` writes one to start from")]
    try:
        parsed = SweRLJobSpec.model_validate(spec, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        return [*found, *(_fault(spec, dict(each)) for each in error.errors())]
    return [*found, *_quantities(spec, "spec"), *plan_faults(parsed, machines or Machines())]


def plan_faults(spec: SweRLJobSpec, machines: Machines) -> list[Fault]:
    """Why the model cannot be trained and served in the spec's layout."""
    try:
        text = refusal(spec, known_models(spec), machines)
    except (TypeError, ValueError) as error:
        arguments = shown(spec.rollout.engine_args)
        return [Fault("spec.rollout.engineArgs", arguments, str(error), "see docs/layouts.md for their values")]
    if text is None:
        return []
    message, _, layout = text.partition("; a layout that fits: ")
    trainer = spec.trainer
    value = f"{trainer.replicas} x {trainer.gpus} GPUs, TP {trainer.tensor_parallel}, PP {trainer.pipeline_parallel}"
    remedy = f"a layout that fits: {layout}" if layout else "docs/layouts.md explains the limits"
    return [Fault("spec.trainer", f"({value})", message, remedy)]


def shown(value: Any) -> str:
    """`value` as a message shows it; empty for None."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = json.dumps(text) if isinstance(value, str) else text
    return text if len(text) <= SHOWN_VALUE else f"{text[: SHOWN_VALUE - 3]}..."


def value_at(spec: Any, place: Sequence[str | int]) -> Any:
    """The value at a place of the document; None where there is none."""
    for part in place:
        try:
            spec = spec[part]
        except (KeyError, IndexError, TypeError):
            return None
    return spec


def _head(job: Json) -> Iterator[Fault]:
    version = job.get("apiVersion")
    if version != API_VERSION:
        message = "the file has no apiVersion" if version is None else "no such version"
        yield Fault("apiVersion", shown(version), message, f"use {API_VERSION}")
    for key in sorted(set(job) - {"apiVersion", "kind", "metadata", "spec", "status"}):
        yield Fault(key, shown(job[key]), "no such field", f"write it below spec: {remedy_for(key)}")


def _name(metadata: Mapping[str, Any]) -> Iterator[Fault]:
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        yield Fault("metadata.name", shown(name), "the job has no name", "give one, such as qwen3-4b")
    elif not DNS_LABEL.fullmatch(name):
        suggestion = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_JOB_NAME] or "qwen3-4b"
        rule = "a name has lower-case letters, digits and dashes only"
        yield Fault("metadata.name", shown(name), rule, f"use {suggestion}")
    elif len(name) > MAX_JOB_NAME:
        message = f"{len(name)} characters; Pods' names leave room for {MAX_JOB_NAME}"
        yield Fault("metadata.name", shown(name), message, f"use {name[:MAX_JOB_NAME].rstrip('-')}")


def _quantities(value: Any, path: str) -> Iterator[Fault]:
    """Amounts of resources that Kubernetes does not read; their type alone admits every text."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in ("requests", "limits") and isinstance(inner, dict):
            for name, amount in inner.items():
                if isinstance(amount, str) and not re.match(QUANTITY, amount):
                    yield Fault(f"{path}.{key}.{name}", shown(amount), *_pattern(amount, QUANTITY))
        else:
            yield from _quantities(inner, f"{path}.{key}")


def _fault(spec: Json, error: Mapping[str, Any]) -> Fault:
    place = [
        part for part in error["loc"] if not (isinstance(part, str) and part.startswith(("literal[", "constrained")))
    ]
    path = ".".join(str(part) for part in place)
    value = value_at(spec, place)
    message, remedy = _words(str(error["type"]), path, value, error.get("ctx") or {}, str(error["msg"]))
    return Fault(f"spec.{path}", shown(value), message, remedy)


def _words(kind: str, path: str, value: Any, context: Mapping[str, Any], message: str) -> tuple[str, str]:
    """What is wrong, and what to do."""
    bound = next((f"{word} {context[key]}" for key, word in _BOUNDS.items() if key in context), "")
    if kind == "extra_forbidden":
        return "no such field", remedy_for(path)
    if kind == "missing":
        example = EXAMPLES.get(path)
        return "it is missing", f"add it: {example}" if example else "add it"
    if kind == "literal_error":
        return "no such value", f"use {context.get('expected')}"
    if kind == "string_pattern_mismatch":
        return _pattern(str(value), str(context.get("pattern")))
    if kind.removesuffix("_type") in TYPES:
        return f"not {TYPES[kind.removesuffix('_type')]}", _typed(kind, value)
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return "not an object", f"write its fields below it{_example(path)}"
    if kind == "value_error" and "; " in message:
        found, _, remedy = message.removeprefix("Value error, ").rpartition("; ")
        return found, remedy
    if bound:
        return "out of range", f"use a value {bound}"
    return message[:1].lower() + message[1:], "see the field's description: kubectl explain swerljob.spec --recursive"


_BOUNDS = {
    "ge": "of at least", "gt": "above", "le": "of at most", "lt": "below",
    "max_length": "with a length of at most", "min_length": "with a length of at least",
}  # fmt: skip


def _example(path: str) -> str:
    return f", such as {EXAMPLES[path]}" if path in EXAMPLES else ""


def _typed(kind: str, value: Any) -> str:
    if isinstance(value, str):
        if kind in ("int_type", "float_type") and re.fullmatch(r"-?[\d_,]+(\.\d+)?(e-?\d+)?", value):
            return f"write it without quotes: {value.replace(',', '').replace('_', '')}"
        if kind == "bool_type":
            return f"write {str(value.lower() in ('yes', 'on', 'true', '1')).lower()} without quotes"
        if kind == "list_type":
            return f"write [{value}]"
    if kind == "string_type" and isinstance(value, int | float):
        return f'write it in quotes: "{value}"'
    if kind == "int_type" and isinstance(value, float):
        return f"write {round(value)}"
    return f"write {TYPES[kind.removesuffix('_type')]}"


def _pattern(value: str, pattern: str) -> tuple[str, str]:
    if re.search(r"[<{$]|CHANGE|TODO|your[-_]", value):
        return "a placeholder", "replace it with the name in your cluster"
    if pattern == r"^/":
        return "not an absolute path", f"use /{value}"
    if pattern.startswith("^[^/]"):
        return "an absolute path", f"use {value.lstrip('/')}, the path inside the source"
    if "A-Za-z_" in pattern:
        return (
            "not an import path",
            f"use {re.sub('[^A-Za-z0-9_]+', '.', value).strip('.')}, as package.module.function",
        )
    if "KMGTPE" in pattern:
        return "not a Kubernetes quantity", f"use {_quantity(value)}"
    if pattern.startswith("^[a-z0-9]"):
        return "not a name of Kubernetes", f"use {re.sub(r'[^a-z0-9.]+', '-', value.lower()).strip('-.') or 'a name'}"
    return f"it does not match {pattern}", "correct it"


def _quantity(value: str) -> str:
    found = re.match(r"\s*([\d.]+)\s*([KMGT])i?B?\s*$", value, re.IGNORECASE)
    return f"{found[1]}{found[2].upper()}i" if found else "500m, 2 or 4Gi"
