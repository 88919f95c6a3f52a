"""Log-probabilities of chosen tokens from a Megatron model, without gathering the vocabulary.

Guarantees: logits are computed only where a token is trained, in chunks; the vocabulary stays sharded over
tensor-parallel ranks; the result is the same on every tensor- and context-parallel rank.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.packing import MicroBatch
from swerl_trainer.megatron.vocabulary import token_terms
from torch import Tensor

from megatron.core import parallel_state
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region


def forward(
    model: Any, micro_batch: MicroBatch, algorithm: AlgorithmSpec, device: torch.device, vocabulary: int
) -> Tensor:
    """float32 [2, n] on the last pipeline stage: log-probability and entropy of the `n` trainable tokens, in the order
    of `micro_batch.positions`; on other stages the activations that travel on. Rows of the output layer from
    `vocabulary` on are padding, without probability."""
    local = context_positions(micro_batch.boundaries)
    tokens, position_ids = micro_batch.tokens, micro_batch.position_ids
    if local is not None:
        tokens, position_ids = tokens[local], position_ids[local]
    output: Tensor = model(
        tokens[None].to(device),
        position_ids[None].to(device),
        None,
        packed_seq_params=_packed(micro_batch, device),
        output_processor=_token_terms,
        output_processor_context=(micro_batch, algorithm, local, vocabulary),
    )
    return output


def context_positions(boundaries: Tensor) -> Tensor | None:
    """Packed positions this context-parallel rank holds, in its order; None without context parallelism.

    Rank r of n holds chunks r and 2n-1-r of each sequence's 2n, so that causal work is even (Megatron's order).
    """
    group = parallel_state.get_context_parallel_group()
    return None if group.size() == 1 else _positions_of_rank(boundaries, group.rank(), group.size())


def _positions_of_rank(boundaries: Tensor, rank: int, ranks: int) -> Tensor:
    starts = boundaries[:-1].tolist()
    chunks = (boundaries.diff() // (2 * ranks)).tolist()
    spans = [
        torch.arange(start + chunk * part, start + chunk * (part + 1))
        for start, chunk in zip(starts, chunks, strict=True)
        for part in (rank, 2 * ranks - 1 - rank)
    ]
    return torch.cat(spans)


def _packed(micro_batch: MicroBatch, device: torch.device) -> PackedSeqParams:
    boundaries = micro_batch.boundaries.to(device)
    return PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=boundaries,
        cu_seqlens_kv=boundaries,
        max_seqlen_q=micro_batch.longest,
        max_seqlen_kv=micro_batch.longest,
    )


def _token_terms(
    *,
    hidden_states: Tensor,
    output_layer: Any,
    output_weight: Tensor | None,
    config: Any,
    context: tuple[MicroBatch, AlgorithmSpec, Tensor | None, int],
    **_: Any,
) -> Tensor:
    """Megatron's output hook: [t, 1, hidden] of the last layer to [2, n]."""
    micro_batch, algorithm, local, vocabulary = context
    if config.sequence_parallel:
        hidden_states = gather_from_sequence_parallel_region(hidden_states, tensor_parallel_output_grad=False)
    positions = micro_batch.positions if local is None else torch.isin(local, micro_batch.positions).nonzero().flatten()
    labels = micro_batch.labels[positions if local is None else local[positions]].to(hidden_states.device)
    positions = positions.to(hidden_states.device)
    terms = token_terms(
        hidden_states.index_select(0, positions),
        labels,
        partial(_logits, output_layer, output_weight),
        width=output_layer.output_size_per_partition,
        vocabulary=vocabulary,
        temperature=algorithm.temperature,
        entropy_gradient=algorithm.entropy_coef > 0,
    )
    if local is None:
        return terms
    rank_terms = terms.new_zeros(2, len(local)).index_copy(1, positions, terms)
    gathered = _gather_context(rank_terms, micro_batch.boundaries)
    return gathered.index_select(1, micro_batch.positions.to(gathered.device))


def _logits(output_layer: Any, output_weight: Tensor | None, hidden_states: Tensor) -> Tensor:
    """Vocabulary shard of the logits [n, v]; the hidden states are already gathered over the sequence."""
    sequence_parallel, output_layer.sequence_parallel = output_layer.sequence_parallel, False
    try:
        logits: Tensor = output_layer(hidden_states, weight=output_weight)[0]
    finally:
        output_layer.sequence_parallel = sequence_parallel
    return logits[:, 0]


def _gather_context(metrics: Tensor, boundaries: Tensor) -> Tensor:
    """[2, t/n] of this context-parallel rank to [2, t] in packed order; every rank continues with the same numbers, so
    the gradient of a rank is its own slice."""
    group = parallel_state.get_context_parallel_group()
    gathered = gather_from_sequence_parallel_region(
        metrics.t().contiguous(), tensor_parallel_output_grad=False, group=group
    )
    order = torch.cat([_positions_of_rank(boundaries, rank, group.size()) for rank in range(group.size())])
    in_order: Tensor = gathered.index_select(0, order.argsort().to(metrics.device))
    return in_order.t()
