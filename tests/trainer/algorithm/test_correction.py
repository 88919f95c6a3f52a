"""Importance weights and rejections against formulas written out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from swerl_api.algorithm import AlgorithmSpec, CorrectionSpec, RejectionSpec
from swerl_trainer.algorithm import TrainingSample, corrected, minibatches, policy_batch
from swerl_trainer.algorithm.correction import correction_of, importance_weights, needs_whole_batch
from torch import Tensor

SEQUENCE = [0, 0, 1, 1]
TRAINER = [-1.5, -2.0, -0.1, -2.5]
ROLLOUT = [-2.5, -2.0, 0.0, -2.0]  # log ratios to it: 1, 0, -.1, -.5
RATIO = [math.e, 1.0, math.exp(-0.1), math.exp(-0.5)]
FIRST, SECOND = math.exp(1.0), math.exp(-0.6)  # products over the sequences
GEOMETRIC = [math.exp(0.5)] * 2 + [math.exp(-0.3)] * 2


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def weights_of(**fields: Any) -> tuple[list[float], list[bool]]:
    sequence = torch.tensor(SEQUENCE)
    found = importance_weights(tensor(TRAINER), tensor(ROLLOUT), sequence, 2, CorrectionSpec(**fields))
    return found.weights.tolist(), found.rejected.tolist()


@pytest.mark.parametrize(
    ("fields", "weights", "rejected"),
    [
        ({"mode": "none"}, [1.0] * 4, [False] * 4),
        ({"mode": "truncate"}, [2.0, *RATIO[1:]], [False] * 4),
        ({"mode": "truncate", "low": 0.7}, [2.0, *RATIO[1:]], [False] * 4),
        ({"mode": "clip", "low": 0.7}, [2.0, *RATIO[1:3], 0.7], [False] * 4),
        ({"mode": "mask", "low": 0.7}, [2.0, *RATIO[1:3], 0.7], [True, False, False, True]),
        ({"mode": "truncate", "level": "sequence"}, [2.0, 2.0, SECOND, SECOND], [False] * 4),
        ({"mode": "mask", "level": "sequence"}, [2.0, 2.0, SECOND, SECOND], [True, True, False, False]),
        ({"mode": "truncate", "level": "geometric"}, GEOMETRIC, [False] * 4),
        ({"mode": "clip", "level": "geometric", "low": 0.8}, [*GEOMETRIC[:2], 0.8, 0.8], [False] * 4),
        ({"mode": "mask", "level": "geometric", "low": 0.8}, [*GEOMETRIC[:2], 0.8, 0.8], [False, False, True, True]),
        ({"mode": "none", "veto": 0.7}, [1.0] * 4, [False, False, True, True]),
        (
            {"mode": "none", "rejection": RejectionSpec(level="geometric", low=0.7, high=1.3)},
            [1.0] * 4,
            [True, True, False, False],
        ),
        (
            {"mode": "truncate", "rejection": RejectionSpec(level="token", low=0.95, high=3.0)},
            [2.0, *RATIO[1:]],
            [False, False, True, True],
        ),
    ],
)
def test_weights_and_rejections(fields: dict[str, Any], weights: list[float], rejected: list[bool]) -> None:
    assert weights_of(**fields) == (pytest.approx(weights), rejected)


def test_batch_normalisation_gives_the_kept_tokens_the_mean_one() -> None:
    weights, _ = weights_of(mode="truncate", batch_normalisation=True)
    plain = np.array([2.0, *RATIO[1:]])
    assert weights == pytest.approx((plain / plain.mean()).tolist())
    weights, rejected = weights_of(mode="mask", low=0.7, batch_normalisation=True)
    assert np.mean(np.array(weights)[~np.array(rejected)]) == pytest.approx(1.0)


def test_batch_normalisation_of_sequence_weights_is_over_sequences() -> None:
    trainer, rollout = tensor([-1.0, -1.0, -1.0, -2.0]), tensor([-1.1, -1.1, -1.1, -2.2])
    correction = CorrectionSpec(mode="truncate", level="sequence", batch_normalisation=True)
    found = importance_weights(trainer, rollout, torch.tensor([0, 0, 0, 1]), 2, correction)
    first, second = math.exp(0.3), math.exp(0.2)
    mean = (first + second) / 2
    assert found.weights.tolist() == pytest.approx([first / mean] * 3 + [second / mean])


def test_batch_without_accepted_tokens_has_finite_weights() -> None:
    weights, rejected = weights_of(mode="mask", low=10.0, high=11.0, batch_normalisation=True)
    assert all(rejected) and all(math.isfinite(weight) for weight in weights)


def test_weights_have_no_gradient() -> None:
    trainer = tensor(TRAINER).requires_grad_()
    correction = CorrectionSpec(mode="clip")
    found = importance_weights(trainer, tensor(ROLLOUT), torch.tensor(SEQUENCE), 2, correction)
    assert not found.weights.requires_grad


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, "none"),
        ({"max_staleness": 1}, "truncate"),
        ({"max_staleness": 1, "old_logprobs": "rollout"}, "none"),
        ({"max_staleness": 1, "correction": CorrectionSpec(mode="mask")}, "mask"),
    ],
)
def test_stale_tokens_are_corrected_unless_the_ratio_covers_them(fields: dict[str, Any], mode: str) -> None:
    assert correction_of(AlgorithmSpec(**fields)).mode == mode


@pytest.mark.parametrize(
    ("fields", "uses_batch"),
    [
        ({"mode": "truncate"}, False),
        ({"mode": "clip", "level": "sequence"}, False),
        ({"mode": "none", "batch_normalisation": True}, False),
        ({"mode": "mask"}, True),
        ({"mode": "truncate", "batch_normalisation": True}, True),
        ({"mode": "none", "veto": 1e-4}, True),
        ({"mode": "none", "rejection": RejectionSpec()}, True),
    ],
)
def test_only_rejections_and_normalisation_need_the_whole_batch(fields: dict[str, Any], uses_batch: bool) -> None:
    assert needs_whole_batch(CorrectionSpec(**fields)) is uses_batch


# In a batch


def rollout(index: int, gaps: list[float]) -> TrainingSample:
    """A prompt token, then a token per log-ratio of the trainer (log-probability -1) to the engine."""
    logprobs = [0.0, *(-1.0 - gap for gap in gaps)]
    count = len(gaps)
    return TrainingSample([7] * (count + 1), [0] + [1] * count, logprobs, float(index), True, "g", index, "task")


def batch_of(algorithm: AlgorithmSpec) -> Any:
    batch = policy_batch([rollout(0, [0.0, 3.0, 0.1]), rollout(1, [0.2]), rollout(2, [5.0])], algorithm)
    old = [torch.full((len(sequence),), -1.0) for sequence in batch.sequences]
    return corrected(batch.with_old_logprobs(old), algorithm)


def test_rejected_tokens_have_no_part_in_the_normaliser() -> None:
    batch = batch_of(AlgorithmSpec(correction=CorrectionSpec(mode="mask")))
    assert [s.mask.tolist() for s in batch.sequences] == [[False, True, False, True], [False, True]]
    weights = torch.cat([s.weights[s.mask] for s in batch.sequences])
    assert weights.tolist() == pytest.approx([1 / 3] * 3)
    assert float(sum(s.weights.sum() for s in batch.sequences)) == pytest.approx(1.0)


def test_importance_weights_lie_on_their_tokens() -> None:
    first, second = batch_of(AlgorithmSpec(correction=CorrectionSpec(mode="mask"))).sequences
    assert first.correction[first.mask].tolist() == pytest.approx([1.0, math.exp(0.1)])
    assert second.correction[second.mask].tolist() == pytest.approx([math.exp(0.2)])


def test_batch_whose_tokens_are_all_rejected_is_empty() -> None:
    correction = CorrectionSpec(mode="none", rejection=RejectionSpec(level="token", low=40.0, high=50.0))
    assert len(batch_of(AlgorithmSpec(correction=correction))) == 0


def test_corrected_batches_are_shared_out_to_minibatches() -> None:
    algorithm = AlgorithmSpec(correction=CorrectionSpec(mode="mask"), minibatches=2)
    parts = minibatches(batch_of(algorithm), algorithm)
    assert [float(sum(s.weights.sum() for s in part.sequences)) for part in parts] == pytest.approx([1.0, 1.0])
    assert all(s.correction is not None for part in parts for s in part.sequences)
