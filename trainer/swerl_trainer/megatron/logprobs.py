"""Log-probabilities of chosen tokens from a Megatron model, without gathering the vocabulary.

Guarantees: logits are computed only where a token is trained (with context parallelism: on every local position); the
vocabulary stays sharded over tensor-parallel ranks; the result is the same on every tensor- and context-parallel rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.packing import MicroBatch
from torch import Tensor

from megatron.core import parallel_state
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region, vocab_parallel_cross_entropy

ENTROPY_CHUNK = 1024  # tokens whose probabilities are held at once when entropy is only reported


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
    device = hidden_states.device
    if config.sequence_parallel:
        hidden_states = gather_from_sequence_parallel_region(hidden_states, tensor_parallel_output_grad=False)
    positions = micro_batch.positions.to(device)
    if local is None:
        hidden_states = hidden_states.index_select(0, positions)
        labels = micro_batch.labels.to(device)[positions]
    else:
        labels = micro_batch.labels[local].to(device)
    logits = _logits(output_layer, output_weight, hidden_states)
    if algorithm.temperature != 1.0:
        logits = logits / algorithm.temperature
    logits = _without_padding(logits, vocabulary)
    metrics = _logprobs_and_entropy(logits, labels, differentiable_entropy=algorithm.entropy_coef > 0)
    if local is None:
        return metrics
    return _gather_context(metrics, micro_batch.boundaries).index_select(1, positions)


def _logits(output_layer: Any, output_weight: Tensor | None, hidden_states: Tensor) -> Tensor:
    """Vocabulary shard of the logits [n, v]; the hidden states are already gathered over the sequence."""
    sequence_parallel, output_layer.sequence_parallel = output_layer.sequence_parallel, False
    try:
        logits: Tensor = output_layer(hidden_states, weight=output_weight)[0]
    finally:
        output_layer.sequence_parallel = sequence_parallel
    return logits[:, 0]


def _without_padding(logits: Tensor, vocabulary: int) -> Tensor:
    """The vocabulary shard with logits that give no probability where the last ranks have padding."""
    width = logits.shape[-1]
    used = min(max(vocabulary - int(parallel_state.get_tensor_model_parallel_rank()) * width, 0), width)
    if used == width:
        return logits
    return F.pad(logits[:, :used], (0, width - used), value=torch.finfo(logits.dtype).min / 2)


def _logprobs_and_entropy(logits: Tensor, labels: Tensor, *, differentiable_entropy: bool) -> Tensor:
    if differentiable_entropy:
        entropy = _entropy(logits.float())
        logits = logits.clone()  # the cross entropy works in place
    else:
        with torch.no_grad():
            entropy = torch.cat([_entropy(part.float()) for part in _chunks(logits)])
    return torch.stack([-vocab_parallel_cross_entropy(logits, labels), entropy])


def _chunks(logits: Tensor) -> Sequence[Tensor]:
    return logits.tensor_split(max(1, -(-len(logits) // ENTROPY_CHUNK)))


def _entropy(logits: Tensor) -> Tensor:
    """Entropy in nats [n] of the distribution whose logits are sharded over tensor-parallel ranks."""
    group = parallel_state.get_tensor_model_parallel_group()
    peak = logits.detach().amax(dim=-1, keepdim=True)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=group)
    shifted = logits - peak
    weights = shifted.exp()
    sums = torch.stack([weights.sum(dim=-1), (weights * shifted).sum(dim=-1)])
    mass, moment = _SumOverRanks.apply(sums, group)
    entropy: Tensor = mass.log() - moment / mass
    return entropy


class _SumOverRanks(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """Sum over a group whose ranks all continue with the same numbers: the gradient passes as it is."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = values.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


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
