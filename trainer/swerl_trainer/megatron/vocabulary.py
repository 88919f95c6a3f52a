"""Log-probability and entropy of tokens from logits whose vocabulary is sharded over tensor-parallel ranks.

Guarantees: at most LOGITS_CHUNK logits exist at once, with two copies in float32, in the backward pass too, whatever
the number of tokens. Temperature, softmax and entropy are computed in float32; the result is the same on every
tensor-parallel rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from swerl_plan.memory import LOGITS_CHUNK
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from megatron.core import parallel_state

PADDING = -1e30  # logit of a column that is no token


def token_terms(
    hidden_states: Tensor,
    labels: Tensor,
    logits_of: Callable[[Tensor], Tensor],
    *,
    width: int,
    vocabulary: int,
    temperature: float,
    entropy_gradient: bool,
    limit: int = LOGITS_CHUNK,
) -> Tensor:
    """float32 [2, n]: log-probability of `labels` [n] and entropy (nats), from `hidden_states` [n, 1, hidden].

    `logits_of` gives this rank's `width` columns of the logits; columns from `vocabulary` on are padding. Tokens are
    taken in chunks, whose logits are computed again in the backward pass.
    """
    used = min(max(vocabulary - int(parallel_state.get_tensor_model_parallel_rank()) * width, 0), width)

    def terms(hidden: Tensor, chosen: Tensor) -> Tensor:
        values: Tensor = _ShardedSoftmax.apply(logits_of(hidden), chosen, used, temperature, entropy_gradient)
        return values

    tokens = max(1, limit // width)
    ends = list(range(tokens, len(labels), tokens))
    pieces = list(zip(hidden_states.tensor_split(ends), labels.tensor_split(ends), strict=True))
    if len(pieces) == 1 or not torch.is_grad_enabled():
        return torch.cat([terms(*piece) for piece in pieces], dim=1)
    return torch.cat(
        [checkpoint(terms, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces], dim=1
    )


class _ShardedSoftmax(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """Logits [n, v] of a rank, in the model's format, to float32 [2, n]: log-probability of the labels, entropy.

    With z the logits divided by the temperature, p their softmax and H its entropy: d log p(y) / dz = onehot(y) - p and
    dH / dz = -p (log p + H).
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, used: int, temperature: float, entropy_gradient: bool
    ) -> Tensor:
        group = parallel_state.get_tensor_model_parallel_group()
        scaled = _scaled(logits, used, temperature)
        peak = scaled.amax(dim=-1)
        dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=group)
        scaled -= peak[:, None]
        local = labels - group.rank() * logits.shape[-1]
        owned = (local >= 0) & (local < logits.shape[-1])
        local = local.where(owned, 0)
        target = scaled.gather(1, local[:, None])[:, 0] * owned
        weights = scaled.exp()
        sums = torch.stack([target, weights.sum(dim=-1), scaled.mul_(weights).sum(dim=-1)])
        dist.all_reduce(sums, group=group)
        target, mass, moment = sums
        entropy = mass.log() - moment / mass
        ctx.save_for_backward(logits, local, owned, peak + mass.log(), entropy)
        ctx.settings = used, temperature, entropy_gradient
        return torch.stack([target - mass.log(), entropy])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, local, owned, normaliser, entropy = ctx.saved_tensors
        used, temperature, entropy_gradient = ctx.settings
        of_logprob, of_entropy = gradients[0]
        log_p = _scaled(logits, used, temperature).sub_(normaliser[:, None])
        p = log_p.exp()
        if entropy_gradient:
            factor = log_p.add_(entropy[:, None]).mul_(-of_entropy[:, None]).sub_(of_logprob[:, None])
            result = factor.mul_(p)
        else:
            result = p.mul_(-of_logprob[:, None])
        result.scatter_add_(1, local[:, None], (of_logprob * owned)[:, None])
        return result.div_(temperature).to(logits.dtype), None, None, None, None


def _scaled(logits: Tensor, used: int, temperature: float) -> Tensor:
    """A float32 copy of the logits divided by the temperature; padding has no probability."""
    scaled = logits.to(torch.float32, copy=True)
    if temperature != 1.0:
        scaled /= temperature
    scaled[:, used:] = PADDING
    return scaled
