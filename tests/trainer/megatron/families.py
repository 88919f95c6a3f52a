"""A tiny random model of each family, in Hugging Face format, and the weights of such a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 320
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
PLAIN = {"rope_type": "default", "rope_theta": 20_000.0}
LINEAR = PLAIN | {"rope_type": "linear", "factor": 4.0}
LLAMA3 = PLAIN | {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = PLAIN | {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "rope_parameters": PLAIN,
    "head_dim": 24,
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "norm_topk_prob": True,
}
GLM: dict[str, Any] = {
    "model_type": "glm4_moe",
    "rope_parameters": PLAIN | {"partial_rotary_factor": 0.5},
    "head_dim": 24,
    "attention_bias": True,
    "use_qk_norm": True,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 40,
    "n_shared_experts": 2,
    "routed_scaling_factor": 1.5,
    "first_k_dense_replace": 1,
    "num_mtp_layers": 0,
}
MODELS: dict[str, dict[str, Any]] = {
    "glm4-moe": GLM,
    "glm4-moe-plain-attention": GLM | {"attention_bias": False, "use_qk_norm": False, "vocab_size": 325},
    "qwen2": {"model_type": "qwen2", "rope_parameters": PLAIN},
    "qwen2-tied-yarn": {"model_type": "qwen2", "rope_parameters": YARN, "tie_word_embeddings": True},
    "qwen3-yarn": {"model_type": "qwen3", "rope_parameters": YARN, "head_dim": 24},
    "qwen3-moe": MOE,
    "qwen3-moe-unnormalised": MOE | {"norm_topk_prob": False, "tie_word_embeddings": True},
    "llama": {"model_type": "llama", "rope_parameters": PLAIN, "tie_word_embeddings": True},
    "llama3": {"model_type": "llama", "rope_parameters": LLAMA3, "rms_norm_eps": 1e-5},
    "llama-linear": {"model_type": "llama", "rope_parameters": LINEAR, "num_key_value_heads": 4},
}


def read_folder(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder; each is in one file."""
    files = [load_file(path) for path in sorted(folder.glob("*.safetensors"))]
    tensors = {name: tensor for file in files for name, tensor in file.items()}
    assert len(tensors) == sum(map(len, files))
    return tensors


def make_model(folder: Path, **fields: Any) -> Any:
    """A model with random weights, biases and norms among them, and its folder."""
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**{**SHAPE, **fields}), attn_implementation="eager")
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() == 1 else 0.08))
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            parameter.data += 1
    for name, bias in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            bias.copy_(torch.randn_like(bias) * 0.3)
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 256}))
    return model.eval()
