"""The policy's loss per token, by algorithm.

Sources: clipped objective, Schulman et al. 2017, eq. 7; clip-higher, DAPO (Yu et al. 2025), eq. 10; dual clip, Ye et
al. 2020, eq. 5; sequence ratio, GSPO (Zheng et al. 2025), eq. 5-7; clipped ratio as weight, CISPO (MiniMax-M1 2025),
eq. 4-5; REINFORCE, Williams 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from swerl_api import AlgorithmSpec
from swerl_api.algorithm import RatioLevel
from swerl_trainer.algorithm.correction import ratio_at_level
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.own_functions import own_function
from torch import Tensor


@dataclass(frozen=True)
class TokenTerms:
    """Inputs of the loss for the `n` trainable tokens of a micro-batch; tensors are 1-D [n], float32 by default."""

    logprobs: Tensor  # of the current policy, with graph
    advantages: Tensor
    weights: Tensor  # in the batch's loss
    sequence: Tensor  # int64, index of the token's sequence
    sequences: int
    entropy: Tensor | None = None
    rollout: Tensor | None = None  # log-probabilities of the sampling engine
    old: Tensor | None = None  # of the policy that ratios compare with; None: the current one
    reference: Tensor | None = None
    correction: Tensor | None = None  # importance weights, where they were computed over the whole batch
    correction_active: Tensor | None = None  # whether a bound changed them

    @property
    def old_or_current(self) -> Tensor:
        """Log-probabilities that ratios compare with, without graph."""
        return self.logprobs.detach() if self.old is None else self.old


LossFunction = Callable[[TokenTerms, AlgorithmSpec], Tensor]
"""`algorithm.loss`: the loss per token [n], with graph, before importance weights, KL and entropy."""


def policy_loss(terms: TokenTerms, algorithm: AlgorithmSpec) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss per token [n] and its metrics, before importance weights, KL and entropy.

    Raises AlgorithmError when the own loss does not give one value per token.
    """
    if algorithm.name == "sft":
        return -terms.logprobs, {}
    if algorithm.loss:
        return _own(terms, algorithm), {}
    if algorithm.name == "reinforce":
        return -terms.advantages * terms.logprobs, {}
    if algorithm.name == "cispo":
        return _cispo(terms, algorithm)
    return _clipped(terms, algorithm)


def _clipped(terms: TokenTerms, algorithm: AlgorithmSpec) -> tuple[Tensor, dict[str, Tensor]]:
    ratio = _ratio(terms, "geometric" if algorithm.name == "gspo" else "token")
    unclipped = -ratio * terms.advantages
    clipped = -ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high) * terms.advantages
    loss = torch.maximum(unclipped, clipped)
    without_gradient = clipped > unclipped
    if algorithm.dual_clip:
        bound = -algorithm.dual_clip * terms.advantages
        beyond = (terms.advantages < 0) & (loss > bound)
        loss, without_gradient = torch.where(beyond, bound, loss), without_gradient | beyond
    return loss, _ratio_metrics(terms, ratio, without_gradient)


def _cispo(terms: TokenTerms, algorithm: AlgorithmSpec) -> tuple[Tensor, dict[str, Tensor]]:
    ratio = _ratio(terms, "token").detach()
    weight = ratio.clamp(1 - algorithm.clip_low, 1 + algorithm.clip_high)
    return -weight * terms.advantages * terms.logprobs, _ratio_metrics(terms, ratio, weight != ratio)


def _ratio_metrics(terms: TokenTerms, ratio: Tensor, clipped: Tensor) -> dict[str, Tensor]:
    update_kl = terms.old_or_current - terms.logprobs
    return {"ratio": ratio, "clip_fraction": clipped.float(), "update_kl": update_kl}


def _ratio(terms: TokenTerms, level: RatioLevel) -> Tensor:
    """Probability ratio to the old policy [n]."""
    return ratio_at_level(terms.logprobs - terms.old_or_current, terms.sequence, terms.sequences, level)


def _own(terms: TokenTerms, algorithm: AlgorithmSpec) -> Tensor:
    function: LossFunction = own_function("loss", algorithm.loss)
    loss = function(terms, algorithm)
    if not isinstance(loss, Tensor) or loss.shape != terms.logprobs.shape:
        shape = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise AlgorithmError(
            f"algorithm.loss: {algorithm.loss} returned {shape}, not one value per token {list(terms.logprobs.shape)}"
        )
    return loss
