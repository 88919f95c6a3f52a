"""Configurations of models that jobs often name, so that they are planned before anything is downloaded.

Each row has the fields of the model's config.json that decide its shape.
"""

from __future__ import annotations

from typing import Any

from .shape import ModelShape, shape_of

_FIELDS = (
    "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "tie_word_embeddings",
)  # fmt: skip
_QWEN3 = {"model_type": "qwen3", "vocab_size": 151_936, "max_position_embeddings": 40_960}
_QWEN2 = {"model_type": "qwen2", "vocab_size": 151_936, "max_position_embeddings": 32_768}
_LLAMA = {"model_type": "llama", "vocab_size": 128_256, "max_position_embeddings": 131_072}
_LONG = {"max_position_embeddings": 262_144}
_WIDE = {"vocab_size": 152_064}  # the larger Qwen2.5 models
_QWEN3_MOE = _QWEN3 | {
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}
_GLM = {
    "model_type": "glm4_moe",
    "vocab_size": 151_552,
    "max_position_embeddings": 131_072,
    "attention_bias": True,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
}
_4B = (36, 2560, 32, 8, 128, 9728, True)
_30B_A3B = (48, 2048, 32, 4, 128, 6144, False)

# id without owner's case -> (family, sizes in the order of _FIELDS, other fields)
_MODELS: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "Qwen/Qwen3-0.6B": (_QWEN3, (28, 1024, 16, 8, 128, 3072, True), {}),
    "Qwen/Qwen3-1.7B": (_QWEN3, (28, 2048, 16, 8, 128, 6144, True), {}),
    "Qwen/Qwen3-4B": (_QWEN3, _4B, {}),
    "Qwen/Qwen3-4B-Instruct-2507": (_QWEN3, _4B, _LONG),
    "Qwen/Qwen3-4B-Thinking-2507": (_QWEN3, _4B, _LONG),
    "Qwen/Qwen3-8B": (_QWEN3, (36, 4096, 32, 8, 128, 12_288, False), {}),
    "Qwen/Qwen3-14B": (_QWEN3, (40, 5120, 40, 8, 128, 17_408, False), {}),
    "Qwen/Qwen3-32B": (_QWEN3, (64, 5120, 64, 8, 128, 25_600, False), {}),
    "Qwen/Qwen3-30B-A3B": (_QWEN3_MOE, _30B_A3B, {}),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": (_QWEN3_MOE, _30B_A3B, _LONG),
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": (_QWEN3_MOE, _30B_A3B, _LONG),
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": (_QWEN2, (24, 896, 14, 2, 64, 4864, True), {}),
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": (_QWEN2, (28, 1536, 12, 2, 128, 8960, True), {}),
    "Qwen/Qwen2.5-Coder-3B-Instruct": (_QWEN2, (36, 2048, 16, 2, 128, 11_008, True), {}),
    "Qwen/Qwen2.5-Coder-7B-Instruct": (_QWEN2, (28, 3584, 28, 4, 128, 18_944, False), _WIDE),
    "Qwen/Qwen2.5-Coder-14B-Instruct": (_QWEN2, (48, 5120, 40, 8, 128, 13_824, False), _WIDE),
    "Qwen/Qwen2.5-Coder-32B-Instruct": (_QWEN2, (64, 5120, 40, 8, 128, 27_648, False), _WIDE),
    "meta-llama/Llama-3.1-8B-Instruct": (_LLAMA, (32, 4096, 32, 8, 128, 14_336, False), {}),
    "meta-llama/Llama-3.2-1B-Instruct": (_LLAMA, (16, 2048, 32, 8, 64, 8192, True), {}),
    "meta-llama/Llama-3.2-3B-Instruct": (_LLAMA, (28, 3072, 24, 8, 128, 8192, True), {}),
    "meta-llama/Llama-3.3-70B-Instruct": (_LLAMA, (80, 8192, 64, 8, 128, 28_672, False), {}),
    "zai-org/GLM-4.5-Air": (_GLM, (46, 4096, 96, 8, 128, 10_944, False), {}),
}
_SHAPES = {
    name.lower(): shape_of({**family, **dict(zip(_FIELDS, sizes, strict=True)), **other})
    for name, (family, sizes, other) in _MODELS.items()
}
KNOWN_MODELS = tuple(_MODELS)


def known_shape(model: str) -> ModelShape | None:
    """Shape of the Hugging Face repository `model`, or of the one it is the base of; None when it is not known."""
    name = model.lower().removesuffix("-base")
    return _SHAPES.get(name) or _SHAPES.get(f"{name}-instruct")
