"""A batch: the tensors of one optimiser step.

Guarantees: the `weights` of a batch sum to 1 over its trainable tokens (not with `lossAggregation: constant`). The loss
is therefore one weighted sum, and neither micro-batches nor data-parallel ranks change its scale. Groups whose rewards
are all equal count in that sum with advantage 0: the fewer groups have a gradient, the smaller the step.

Sources of the weights: token, DAPO (Yu et al. 2025), eq. 8; sequence, GRPO (Shao et al. 2024), eq. 3; constant,
Dr. GRPO (Liu et al. 2025), section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.advantages import advantages_of, answer_advantages
from swerl_trainer.algorithm.correction import correction_of, importance_weights
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.training_sample import TrainingSample
from torch import Tensor

Spans = Sequence[tuple[int, int, float]]  # (first token, end, advantage) of the tokens with a gradient


@dataclass(frozen=True)
class TrainingSequence:
    """One sequence of a batch; every tensor is 1-D, token-aligned and as long as `tokens`."""

    tokens: Tensor  # int64
    mask: Tensor  # bool, True at tokens in the loss; never at the first one
    advantages: Tensor  # float32
    weights: Tensor  # float32, the token's weight in the batch's loss, 0 outside the mask
    trajectory: tuple[str, int]
    rollout_logprobs: Tensor | None = None  # float32; None when the sampling probabilities are unknown (SFT)
    old_logprobs: Tensor | None = None  # float32, of the policy that ratios compare with; None: the current policy's
    reference_logprobs: Tensor | None = None  # float32, of the frozen reference
    correction: Tensor | None = None  # float32, importance weights; None: computed per micro-batch
    correction_active: Tensor | None = None  # float32, 1 where a bound changed the weight

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Batch:
    """Sequences of one optimiser step, in a fixed order."""

    sequences: tuple[TrainingSequence, ...]
    demonstrations: bool = False  # tokens to imitate: cross entropy, independent of algorithm.name

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def tokens(self) -> int:
        """Tokens in the forward pass."""
        return sum(len(s) for s in self.sequences)

    @property
    def trainable_tokens(self) -> int:
        """Tokens in the loss."""
        return sum(int(s.mask.sum()) for s in self.sequences)

    def with_old_logprobs(self, logprobs: Sequence[Tensor]) -> Batch:
        """The batch with the log-probabilities of the policy that begins the step, one tensor per sequence."""
        pairs = zip(self.sequences, logprobs, strict=True)
        return replace(self, sequences=tuple(replace(sequence, old_logprobs=values) for sequence, values in pairs))

    def with_rollout_as_old(self) -> Batch:
        """The batch with the engines' log-probabilities as the old ones."""
        return replace(self, sequences=tuple(replace(s, old_logprobs=s.rollout_logprobs) for s in self.sequences))

    def with_reference_logprobs(self, logprobs: Sequence[Tensor]) -> Batch:
        """The batch with the reference's log-probabilities, one tensor per sequence."""
        pairs = zip(self.sequences, logprobs, strict=True)
        return replace(self, sequences=tuple(replace(s, reference_logprobs=values) for s, values in pairs))


def policy_batch(samples: Sequence[TrainingSample], algorithm: AlgorithmSpec) -> Batch:
    """Batch of graded rollouts, without those that infrastructure ended; empty when no token has a gradient.

    Raises AlgorithmError when `algorithm.encoding` is `sampled` and a sample has no rollout log-probabilities.
    """
    if algorithm.stepwise.enabled:
        scale_by_std = algorithm.advantage_normalisation == "std"
        spans: dict[int, Spans] = {**answer_advantages(samples, scale_by_std=scale_by_std)}
    else:
        advantages = advantages_of(samples, algorithm)
        spans = {i: [(0, len(samples[i].tokens), advantage)] for i, advantage in advantages.items()}
    if not any(samples[i].trainable_tokens for i in spans):
        return Batch(())
    partly_invalid = {sample.trajectory for sample in samples if not sample.valid}
    chosen = [
        (sample, spans.get(i, []))
        for i, sample in enumerate(samples)
        if sample.trainable_tokens and (i in spans or sample.trajectory not in partly_invalid)
    ]
    for sample, _ in chosen:
        if algorithm.encoding == "sampled" and not sample.logprobs:
            raise AlgorithmError(f"{sample.name}: no rollout log-probabilities; the engine must return them")
    return _batch(chosen, algorithm)


def demonstration_batch(samples: Iterable[TrainingSample]) -> Batch:
    """Batch for supervised fine-tuning: every valid sample, with advantage 1 and equal weight on each masked token."""
    spanned = ((sample, [(0, len(sample.tokens), 1.0)]) for sample in samples)
    chosen = [(sample, spans) for sample, spans in spanned if sample.valid and sample.trainable_tokens]
    return replace(_batch(chosen, AlgorithmSpec()), demonstrations=True)


def advantage_metrics(batch: Batch) -> dict[str, float]:
    """Means over `batch`, {} when it is empty.

    `rewards`: of the trajectories, normalised in their groups; `advantages` and `returns`: of the tokens, the same,
    because there is no value model.
    """
    advantages: dict[tuple[str, int], list[Tensor]] = {}
    for sequence in batch.sequences:
        advantages.setdefault(sequence.trajectory, []).append(sequence.advantages[sequence.mask])
    if not advantages:
        return {}
    tokens = [torch.cat(parts) for parts in advantages.values()]
    mean = float(torch.cat(tokens).mean())
    return {"rewards": fmean(float(values.mean()) for values in tokens), "advantages": mean, "returns": mean}


def rollout_batch(samples: Sequence[TrainingSample]) -> tuple[list[int], Batch]:
    """The valid samples with trainable tokens, by position, as a batch to compute log-probabilities of."""
    chosen = [i for i, sample in enumerate(samples) if sample.valid and sample.trainable_tokens]
    return chosen, Batch(tuple(_sequence(samples[i], []) for i in chosen))


def corrected(batch: Batch, algorithm: AlgorithmSpec) -> Batch:
    """`batch` with importance weights, without the tokens that the correction rejects; it has old log-probabilities."""
    rollout = [s.rollout_logprobs[s.mask] for s in batch.sequences if s.rollout_logprobs is not None]
    old = [s.old_logprobs[s.mask] for s in batch.sequences if s.old_logprobs is not None]
    if not len(rollout) == len(old) == len(batch):
        raise AlgorithmError("correction needs old and rollout log-probabilities of every sequence")
    counts = torch.tensor([len(values) for values in old])
    of_token = torch.arange(len(batch)).repeat_interleave(counts)
    result = importance_weights(torch.cat(old), torch.cat(rollout), of_token, len(batch), correction_of(algorithm))
    parts = (result.weights, result.active, result.rejected)
    ends = counts.cumsum(0)[:-1].tolist()
    split = zip(*(values.tensor_split(ends) for values in parts), strict=True)
    sequences = [_corrected(s, *values) for s, values in zip(batch.sequences, split, strict=True)]
    return replace(batch, sequences=tuple(_weighted([s for s in sequences if s.mask.any()], algorithm)))


def minibatches(batch: Batch, algorithm: AlgorithmSpec) -> list[Batch]:
    """`batch` in up to `algorithm.minibatches` parts, none empty; trajectories stay whole, groups spread evenly."""
    order = {trajectory: i for i, trajectory in enumerate(dict.fromkeys(s.trajectory for s in batch.sequences))}
    parts: list[list[TrainingSequence]] = [[] for _ in range(max(1, min(algorithm.minibatches, len(order))))]
    for sequence in batch.sequences:
        parts[order[sequence.trajectory] % len(parts)].append(sequence)
    return [replace(batch, sequences=tuple(_weighted(part, algorithm))) for part in parts]


def _batch(chosen: Sequence[tuple[TrainingSample, Spans]], algorithm: AlgorithmSpec) -> Batch:
    return Batch(tuple(_weighted([_sequence(sample, spans) for sample, spans in chosen], algorithm)))


def _sequence(sample: TrainingSample, spans: Spans) -> TrainingSequence:
    advantages = torch.zeros(len(sample.tokens))
    for start, end, advantage in spans:
        advantages[start:end] = advantage
    mask = torch.tensor(sample.loss_mask, dtype=torch.bool)
    mask[0] = False
    return TrainingSequence(
        tokens=torch.tensor(sample.tokens, dtype=torch.int64),
        mask=mask,
        advantages=mask * advantages,
        weights=torch.zeros(len(sample.tokens)),
        trajectory=sample.trajectory,
        rollout_logprobs=torch.tensor(sample.logprobs, dtype=torch.float32) if sample.logprobs else None,
    )


def _corrected(sequence: TrainingSequence, weights: Tensor, active: Tensor, rejected: Tensor) -> TrainingSequence:
    def aligned(values: Tensor) -> Tensor:
        result = values.new_zeros(len(sequence))
        result[sequence.mask] = values
        return result

    mask = sequence.mask & ~aligned(rejected)
    return replace(sequence, mask=mask, correction=aligned(weights), correction_active=aligned(active))


def _weighted(sequences: Sequence[TrainingSequence], algorithm: AlgorithmSpec) -> list[TrainingSequence]:
    """`sequences` with the weights of `algorithm.lossAggregation`."""
    counts = [int(sequence.mask.sum()) for sequence in sequences]
    tokens: Counter[tuple[str, int]] = Counter()
    for sequence, count in zip(sequences, counts, strict=True):
        tokens[sequence.trajectory] += count

    def weight(sequence: TrainingSequence, count: int) -> float:
        match algorithm.loss_aggregation:
            case "token":
                return 1 / tokens.total()
            case "sequence":
                return 1 / (len(sequences) * count)
            case "trajectory":
                return 1 / (len(tokens) * tokens[sequence.trajectory])
            case "constant":
                return 1 / (len(tokens) * algorithm.length_constant)

    return [
        replace(sequence, weights=sequence.mask * weight(sequence, count))
        for sequence, count in zip(sequences, counts, strict=True)
    ]
