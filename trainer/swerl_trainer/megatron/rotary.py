"""Rotary frequencies of a model, by the type that its configuration names.

Guarantees: the frequencies and the factor are those that transformers computes; an unknown type or a missing parameter
is an error that names it.

Sources: RoPE, Su et al. 2021, eq. 15; linear, Chen et al. 2023, eq. 4; Llama 3's bands, Grattafiori et al. 2024; YaRN,
Peng et al. 2023, eq. 17-22.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swerl_trainer.megatron.errors import ConversionError

BETA_FAST, BETA_SLOW = 32.0, 1.0  # YaRN's rotations within the original context, between which it interpolates


@dataclass(frozen=True)
class Rotary:
    """`frequencies` per pair of dimensions; `attention_factor` scales queries and keys after the rotation."""

    frequencies: tuple[float, ...]
    attention_factor: float = 1.0


def rotary(config: Mapping[str, Any], head_size: int) -> Rotary | None:
    """Rotary embedding of `config.json`, None for the plain one. Raises ConversionError for an unknown type."""
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    base = float(parameters.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    base_frequencies = [base ** (-2 * pair / head_size) for pair in range(head_size // 2)]
    if kind not in TYPES:
        raise ConversionError(f"rotary embedding type {kind!r} is not one of {', '.join(TYPES)}")
    try:
        if kind == "linear":
            return Rotary(tuple(frequency / parameters["factor"] for frequency in base_frequencies))
        if kind == "llama3":
            return Rotary(tuple(_llama3(frequency, parameters) for frequency in base_frequencies))
        if kind == "yarn":
            parameters.setdefault("original_max_position_embeddings", config.get("max_position_embeddings"))
            return _yarn(base_frequencies, base, parameters)
    except KeyError as error:
        raise ConversionError(f"rotary embedding type {kind!r} needs {error.args[0]!r}") from error
    return None


TYPES = ("default", "linear", "llama3", "yarn")


def _llama3(frequency: float, parameters: Mapping[str, Any]) -> float:
    factor, low, high = (float(parameters[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    rotations = float(parameters["original_max_position_embeddings"]) * frequency / (2 * math.pi)
    share = min(max((rotations - low) / (high - low), 0.0), 1.0)  # of the frequency that stays
    return (1 - share) * frequency / factor + share * frequency


def _yarn(base_frequencies: list[float], base: float, parameters: Mapping[str, Any]) -> Rotary:
    factor, context = float(parameters["factor"]), float(parameters["original_max_position_embeddings"])
    size = 2 * len(base_frequencies)

    def pair_with(rotations: float) -> float:
        return size * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = pair_with(float(parameters.get("beta_fast") or BETA_FAST))
    high = pair_with(float(parameters.get("beta_slow") or BETA_SLOW))
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low or 0.001
    frequencies = []
    for pair, frequency in enumerate(base_frequencies):
        interpolated = min(max((pair - low) / width, 0.0), 1.0)
        frequencies.append(interpolated * frequency / factor + (1 - interpolated) * frequency)
    return Rotary(tuple(frequencies), _attention_factor(factor, parameters))


def _attention_factor(factor: float, parameters: Mapping[str, Any]) -> float:
    def scale(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1.0 if factor > 1 else 1.0

    configured = parameters.get("attention_factor")
    if configured is not None:
        return float(configured)
    top, bottom = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return scale(top) / scale(bottom) if top and bottom else scale(1.0)
