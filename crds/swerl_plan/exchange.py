"""Shapes of a job's models as text: the preflight Pod writes what it read from config.json, the operator plans with it.

Guarantees: pure; the text of two models is far below the 4096 bytes of a termination message. The Pod's image is the
user's: a text that is no shape, or has sizes that no model has, is a model that is not known.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .refusal import Models
from .shape import ModelShape

# The search for a layout takes time that grows with layers and experts.
MAX_LAYERS, MAX_EXPERTS, MAX_SIZE = 512, 4096, 2**40
_SHAPE = TypeAdapter(ModelShape)


def models_text(models: Models) -> str:
    """`models` for `read_models_text`."""
    return json.dumps({role: asdict(shape) for role, shape in vars(models).items() if shape})


def read_models_text(text: str) -> Models:
    """The models of `text`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # deeply nested
        return Models(None)
    return Models(_shape(found, "policy"), _shape(found, "judge"))


def _shape(found: Any, role: str) -> ModelShape | None:
    try:
        shape = _SHAPE.validate_python(found[role])
    except (KeyError, TypeError, ValidationError):
        return None
    return shape if _is_plausible(shape) else None


def _is_plausible(shape: ModelShape) -> bool:
    sizes = (shape.hidden, shape.heads, shape.kv_heads, shape.head_size, shape.intermediate, shape.vocabulary)
    experts = shape.experts
    if not 1 <= shape.layers <= MAX_LAYERS or not all(1 <= size <= MAX_SIZE for size in (*sizes, shape.context)):
        return False
    if experts is None:
        return True
    own = (experts.per_token, experts.intermediate, experts.shared, experts.dense_layers)
    return 1 <= experts.count <= MAX_EXPERTS and all(0 <= size <= MAX_SIZE for size in own)
