"""Parameters are counted as the models' authors publish them, contexts as engines derive them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swerl_plan import ShapeError, known_shape, read_shape, shape_of

BILLIONS = {  # of the model cards, to the digits given there
    "Qwen/Qwen3-4B": 4.02,
    "Qwen/Qwen3-8B": 8.19,
    "Qwen/Qwen3-14B": 14.77,
    "Qwen/Qwen3-32B": 32.76,
    "Qwen/Qwen3-30B-A3B": 30.53,
    "Qwen/Qwen2.5-Coder-7B-Instruct": 7.62,
    "Qwen/Qwen2.5-Coder-32B-Instruct": 32.76,
    "meta-llama/Llama-3.1-8B-Instruct": 8.03,
    "meta-llama/Llama-3.3-70B-Instruct": 70.55,
    "zai-org/GLM-4.5-Air": 106.85,
}
CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
}


@pytest.mark.parametrize(("model", "billions"), BILLIONS.items())
def test_known_models_have_their_published_size(model: str, billions: float) -> None:
    shape = known_shape(model)
    assert shape is not None and round(shape.parameters / 1e9, 2) == billions


def test_active_parameters_leave_idle_experts_out() -> None:
    shape = known_shape("qwen/qwen3-30b-a3b")
    assert shape is not None and 3.0e9 < shape.active < 3.4e9


def test_base_model_is_known_by_its_instruct_version() -> None:
    assert known_shape("Qwen/Qwen2.5-Coder-7B") == known_shape("Qwen/Qwen2.5-Coder-7B-Instruct")
    assert known_shape("example/model") is None


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 4096),
        ({"rope_type": "linear", "factor": 4.0}, 16_384),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"type": "yarn", "factor": 2.0}, 8192),
        ({"rope_type": "llama3", "factor": 8.0}, 4096),
    ],
)
def test_context_includes_rotary_scaling(scaling: dict[str, Any] | None, context: int) -> None:
    assert shape_of(CONFIG | {"rope_scaling": scaling}).context == context


def test_missing_fields_and_unknown_families_are_named(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="no 'hidden_size'"):
        shape_of({name: value for name, value in CONFIG.items() if name != "hidden_size"})
    for wrong in ({"hidden_size": "wide"}, {"num_attention_heads": 0}, {"rope_scaling": "yarn"}):
        with pytest.raises(ShapeError, match="cannot be read"):
            shape_of({**CONFIG, **wrong})
    with pytest.raises(ShapeError, match="model_type 'mamba' cannot be planned"):
        shape_of(CONFIG | {"model_type": "mamba"})
    with pytest.raises(ShapeError, match=r"cannot read .*config\.json"):
        read_shape(tmp_path)
