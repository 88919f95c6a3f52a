"""What the preflight Pod reports is read again as it was; what is no model is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from swerl_plan import Models, known_shape, models_text, read_models_text

MIXTURE = known_shape("zai-org/GLM-4.5-Air")
DENSE = known_shape("Qwen/Qwen3-32B")


@pytest.mark.parametrize("models", [Models(MIXTURE, DENSE), Models(DENSE), Models(None, DENSE), Models(None)])
def test_models_are_read_as_they_were_written(models: Models) -> None:
    text = models_text(models)
    assert read_models_text(text) == models and len(text) < 2048


@pytest.mark.parametrize("text", ["", "Killed", "[]", "null", '{"policy": 1}', '{"policy": {"layers": 1}}', "[" * 4096])
def test_text_that_is_no_model_is_not_known(text: str) -> None:
    assert read_models_text(text) == Models(None)


@pytest.mark.parametrize("sizes", [{"layers": 10**9}, {"kv_heads": 0}, {"hidden": 10**20}, {"context": -1}])
def test_sizes_that_no_model_has_are_not_planned(sizes: dict[str, Any]) -> None:
    assert DENSE is not None and MIXTURE is not None and MIXTURE.experts is not None
    assert read_models_text(models_text(Models(replace(DENSE, **sizes), DENSE))) == Models(None, DENSE)
    too_many = replace(MIXTURE, experts=replace(MIXTURE.experts, count=10**9))
    assert read_models_text(models_text(Models(too_many))) == Models(None)


def test_fields_of_a_newer_version_are_ignored() -> None:
    newer = json.loads(models_text(Models(DENSE)))
    newer["policy"]["sinks"] = 4
    assert read_models_text(json.dumps(newer)) == Models(DENSE)
