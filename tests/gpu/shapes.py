"""Random models in the shapes of published ones, made on the spot: speed and agreement need no trained weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Shape:
    """A dense Qwen3 with tied embeddings."""

    name: str
    layers: int
    hidden: int
    heads: int
    groups: int  # key/value heads
    intermediate: int
    head_size: int = 128
    vocabulary: int = 151_936

    @property
    def parameters(self) -> int:
        """Weights of the matrices, the embedding counted once."""
        attention = self.hidden * self.head_size * 2 * (self.heads + self.groups)
        layer = attention + 3 * self.hidden * self.intermediate
        return self.layers * layer + self.vocabulary * self.hidden

    def training_flops(self, sequence: int) -> float:
        """Floating-point operations per token of forward and backward over sequences of `sequence` tokens: 6 per weight
        and causal attention (Chowdhery et al. 2022, appendix B, with half of the attention matrix)."""
        return 6.0 * self.parameters + 6.0 * self.layers * self.heads * self.head_size * sequence

    def cache_bytes(self, tokens: int) -> int:
        """bfloat16 keys and values of `tokens` tokens."""
        return 2 * 2 * self.layers * self.groups * self.head_size * tokens


TINY = Shape("tiny", 2, 64, 4, 2, 128, head_size=16, vocabulary=512)
QWEN3_0_6B = Shape("0.6b", 28, 1024, 16, 8, 3072)
QWEN3_4B = Shape("4b", 36, 2560, 32, 8, 9728)


def write_random(folder: Path, shape: Shape, seed: int = 0) -> Path:
    """A bfloat16 model of `shape` with random weights in Hugging Face format, without tokenizer; `folder`."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        head_dim=shape.head_size,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        eos_token_id=2,
        bos_token_id=None,
        pad_token_id=0,
    )
    torch.manual_seed(seed)
    architecture: Any = Qwen3ForCausalLM  # its constructor is untyped
    with torch.device("cuda"):
        model = architecture(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    del model
    torch.cuda.empty_cache()
    return folder
