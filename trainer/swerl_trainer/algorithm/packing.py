"""Sequences to packed micro-batches within a token budget.

Guarantees: every sequence is in exactly one micro-batch. Every rank gets the same number of micro-batches, so no
collective waits for a rank without work; an empty one is a single padding sequence without loss. No micro-batch exceeds
the budget unless one sequence alone does. Costs, which grow with the square of a sequence's length, are balanced over
micro-batches and ranks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from swerl_trainer.algorithm.batch import Batch, TrainingSequence
from torch import Tensor


@dataclass(frozen=True)
class MicroBatch:
    """Packed sequences of `t` tokens in all (padding included) with `n` trainable tokens.

    A trainable token's terms are in the order of `positions`; position `p` predicts the token at `p + 1`.
    """

    tokens: Tensor  # int64 [t]
    labels: Tensor  # int64 [t], the next token of the same sequence, 0 at its last
    position_ids: Tensor  # int64 [t], restarting in every sequence
    boundaries: Tensor  # int32 [s + 1], where sequences begin, and t
    longest: int  # tokens of the longest sequence
    positions: Tensor  # int64 [n]
    sequence: Tensor  # int64 [n], index of the token's sequence in this micro-batch
    advantages: Tensor  # float32 [n]
    weights: Tensor  # float32 [n]
    rollout: Tensor | None  # float32 [n]
    old: Tensor | None  # float32 [n]
    reference: Tensor | None  # float32 [n]
    correction: Tensor | None  # float32 [n]
    correction_active: Tensor | None  # float32 [n]
    members: tuple[int, ...]  # which sequences of the batch; empty for padding

    @property
    def sequences(self) -> int:
        """Sequences packed, padding sequence included."""
        return len(self.boundaries) - 1


def schedule(
    lengths: Sequence[int], *, budget: int, ranks: int, attention: float = 0.0, multiple: int = 1
) -> list[list[list[int]]]:
    """Rank -> micro-batches -> positions in `lengths`, balanced by cost (longest processing time first).

    `attention`: cost of a pair of tokens that attention compares, relative to that of a token elsewhere. The
    ranks' micro-batches of one number have similar costs. Each rank has a multiple of `multiple` micro-batches, as an
    interleaved pipeline needs.
    """
    costs = [length * (1 + attention * length / 2) for length in lengths]
    together = ranks * multiple
    count = together * max(1, math.ceil(min(sum(lengths) / budget, len(lengths)) / together))
    while (bins := _balanced(lengths, costs, count, budget)) is None:
        count += together
    bins.sort(key=lambda members: -sum(costs[i] for i in members))
    rows = [bins[start : start + ranks] for start in range(0, count, ranks)]
    return [list(of_rank) for of_rank in zip(*(row[:: (-1) ** number] for number, row in enumerate(rows)), strict=True)]


def pack(batch: Batch, members: Sequence[int], *, multiple: int = 1) -> MicroBatch:
    """Micro-batch of the sequences `members` of `batch`, each padded at its end to a multiple of `multiple` tokens."""
    parts = [batch.sequences[i] for i in members]
    padded = [_round_up(len(s), multiple) for s in parts] or [multiple]
    starts = [0, *accumulate(padded)]
    total = starts[-1]
    tokens, labels = torch.zeros(total, dtype=torch.int64), torch.zeros(total, dtype=torch.int64)
    for start, part in zip(starts, parts, strict=False):
        tokens[start : start + len(part)] = part.tokens
        labels[start : start + len(part) - 1] = part.tokens[1:]
    chosen = [part.mask.nonzero().flatten() for part in parts]

    def required(values: Sequence[Tensor]) -> Tensor:
        return torch.cat([v[c] for v, c in zip(values, chosen, strict=True)]) if parts else torch.zeros(0)

    def optional(name: str) -> Tensor | None:
        """None unless every sequence of the batch has it, so that a padding micro-batch has what the others have."""
        if any(getattr(sequence, name) is None for sequence in batch.sequences):
            return None
        return required([getattr(part, name) for part in parts])

    return MicroBatch(
        tokens=tokens,
        labels=labels,
        position_ids=torch.cat([torch.arange(n) for n in padded]),
        boundaries=torch.tensor(starts, dtype=torch.int32),
        longest=max(padded),
        positions=_concatenated([start + c - 1 for start, c in zip(starts, chosen, strict=False)]),
        sequence=_concatenated([torch.full_like(c, i) for i, c in enumerate(chosen)]),
        advantages=required([p.advantages for p in parts]),
        weights=required([p.weights for p in parts]),
        rollout=optional("rollout_logprobs"),
        old=optional("old_logprobs"),
        reference=optional("reference_logprobs"),
        correction=optional("correction"),
        correction_active=optional("correction_active"),
        members=tuple(members),
    )


def unpack(values: Tensor, micro_batch: MicroBatch, batch: Batch) -> dict[int, Tensor]:
    """Per-token values [n] of a micro-batch back to token-aligned tensors, by position of the sequence in `batch`."""
    result: dict[int, Tensor] = {}
    for i, member in enumerate(micro_batch.members):
        sequence: TrainingSequence = batch.sequences[member]
        aligned = values.new_zeros(len(sequence))
        aligned[sequence.mask] = values[micro_batch.sequence == i]
        result[member] = aligned
    return result


def _balanced(lengths: Sequence[int], costs: Sequence[float], count: int, budget: int) -> list[list[int]] | None:
    """`count` bins of even costs, each within `budget` tokens or one sequence alone; None if there are too few."""
    bins: list[list[int]] = [[] for _ in range(count)]
    loads, tokens = [0.0] * count, [0] * count
    for position in sorted(range(len(lengths)), key=lambda i: (-costs[i], i)):
        fitting = [b for b in range(count) if not bins[b] or tokens[b] + lengths[position] <= budget]
        if not fitting:
            return None
        lightest = min(fitting, key=lambda b: (loads[b], b))
        bins[lightest].append(position)
        loads[lightest] += costs[position]
        tokens[lightest] += lengths[position]
    return [sorted(members) for members in bins]


def _round_up(value: int, multiple: int) -> int:
    return math.ceil(value / multiple) * multiple


def _concatenated(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts)) if parts else torch.zeros(0, dtype=torch.int64)
