"""Qwen3 in plain torch: small enough to train fast on two cores.

Guarantee: parameter names and numbers are those of transformers' `Qwen3ForCausalLM` with tied embeddings, so a state
dict moves between the two unchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Architecture of the model; the names follow the HF configuration where they are the same thing."""

    vocab_size: int
    hidden: int = 192
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    intermediate: int = 512
    context: int = 1024
    theta: float = 10000.0
    epsilon: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.epsilon)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of x [..., position, head_dim]."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class KeyValueCache:
    """Keys and values of every layer for a batch of rows, written at explicit positions."""

    def __init__(self, shape: Shape, rows: int, length: int) -> None:
        size = (rows, shape.kv_heads, length, shape.head_dim)
        self.layers = [(torch.zeros(size), torch.zeros(size)) for _ in range(shape.layers)]


@dataclass(frozen=True)
class CachePosition:
    """Where new tokens of a cached batch stand: rows [b], positions [b, n], mask [b, 1, n, span]."""

    cache: KeyValueCache
    rows: Tensor
    positions: Tensor
    span: int
    mask: Tensor


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, queries, bias=False)
        self.k_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.epsilon)
        self.k_norm = RMSNorm(shape.head_dim, shape.epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, layer: int, cached: CachePosition | None) -> Tensor:
        batch, length, _ = x.shape
        s = self.shape
        q = rotate(self.q_norm(self.q_proj(x).view(batch, length, s.heads, s.head_dim)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x).view(batch, length, s.kv_heads, s.head_dim)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, length, s.kv_heads, s.head_dim).transpose(1, 2)
        if cached is not None:
            k, v = _store(cached, layer, k, v)
        group = s.heads // s.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = None if cached is None else cached.mask
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=cached is None)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return mixed


def _store(cached: CachePosition, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    keys, values = cached.cache.layers[layer]
    keys[cached.rows[:, None], :, cached.positions] = k.transpose(1, 2)
    values[cached.rows[:, None], :, cached.positions] = v.transpose(1, 2)
    if len(cached.rows) == keys.shape[0]:
        return keys[:, :, : cached.span], values[:, :, : cached.span]
    return keys[cached.rows, :, : cached.span], values[cached.rows, :, : cached.span]


class MLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = MLP(shape)
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, layer: int, cached: CachePosition | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, layer, cached)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.epsilon)


class TinyQwen3(nn.Module):
    """The language model; `hidden` gives final states, `logits` scores over the vocabulary."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, 0, 0.02 / math.sqrt(2 * shape.layers) if residual else 0.02)
        frequency = shape.theta ** -(torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
        angles = torch.outer(torch.arange(shape.context).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def hidden(self, ids: Tensor, cached: CachePosition | None = None) -> Tensor:
        """Final states [batch, length, hidden] of ids [batch, length]."""
        x: Tensor = self.model.embed_tokens(ids)
        if cached is None:
            cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        else:
            cos, sin = self.cos[cached.positions][:, None], self.sin[cached.positions][:, None]
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, index, cached)
        states: Tensor = self.model.norm(x)
        return states

    def logits(self, states: Tensor) -> Tensor:
        return states @ self.model.embed_tokens.weight.T
