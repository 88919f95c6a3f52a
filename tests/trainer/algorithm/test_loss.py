"""The loss against formulas written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError
from swerl_api.algorithm import AlgorithmSpec, CorrectionSpec
from swerl_trainer.algorithm import AlgorithmError
from swerl_trainer.algorithm.loss import LossReport, micro_batch_loss
from swerl_trainer.algorithm.policy_loss import TokenTerms
from torch import Tensor

LOGPROBS = [-1.0, -2.0, -0.5, -3.0]
OLD = [-1.5, -2.0, -0.1, -2.5]
ADVANTAGES = [1.0, 1.0, -2.0, -2.0]
SEQUENCE = [0, 0, 1, 1]


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def terms(**changes: object) -> TokenTerms:
    fields: dict[str, object] = {
        "logprobs": tensor(LOGPROBS).requires_grad_(),
        "advantages": tensor(ADVANTAGES),
        "weights": torch.full((4,), 0.25),
        "sequence": torch.tensor(SEQUENCE),
        "sequences": 2,
        "old": tensor(OLD),
    }
    return TokenTerms(**(fields | changes))  # type: ignore[arg-type]


def loss(algorithm: AlgorithmSpec, **changes: object) -> LossReport:
    return micro_batch_loss(terms(**changes), algorithm)


def clipped(ratio: float, advantage: float) -> float:
    return -min(ratio * advantage, min(max(ratio, 0.8), 1.28) * advantage)


def test_kl_term_is_the_k3_estimate() -> None:
    reference = [-1.2, -2.0, -0.9, -2.0]
    k3 = [math.exp(r - p) - (r - p) - 1 for r, p in zip(reference, LOGPROBS, strict=True)]
    plain = loss(AlgorithmSpec())
    report = loss(AlgorithmSpec(kl_coef=0.1), reference=tensor(reference))
    assert float(report.sums["kl"]) == pytest.approx(sum(k3) / 4)
    assert float(report.loss - plain.loss) == pytest.approx(0.1 * sum(k3) / 4, rel=1e-4)


def test_entropy_bonus_lowers_the_loss() -> None:
    entropy = tensor([0.1, 0.2, 0.3, 0.4])
    plain, report = loss(AlgorithmSpec()), loss(AlgorithmSpec(entropy_coef=0.5), entropy=entropy)
    assert float(report.loss - plain.loss) == pytest.approx(-0.5 * 0.25, rel=1e-4)


def test_term_that_is_switched_on_must_be_there() -> None:
    with pytest.raises(AlgorithmError, match="kl_coef"):
        loss(AlgorithmSpec(kl_coef=0.1))
    with pytest.raises(AlgorithmError, match="rollout log-probabilities"):
        loss(AlgorithmSpec(correction=CorrectionSpec(mode="truncate")))


ROLLOUT = [-2.5, -2.0, 0.0, -2.0]  # log ratios of OLD to it: 1, 0, -.1, -.5
RATIO = [math.e, 1.0, math.exp(-0.1), math.exp(-0.5)]


def test_correction_weights_multiply_the_loss() -> None:
    algorithm = AlgorithmSpec(correction=CorrectionSpec(mode="truncate", high=2.0))
    per_token = [clipped(math.exp(p - o), a) for p, o, a in zip(LOGPROBS, OLD, ADVANTAGES, strict=True)]
    expected = sum(min(w, 2.0) * value for w, value in zip(RATIO, per_token, strict=True)) / 4
    report = loss(algorithm, rollout=tensor(ROLLOUT))
    assert report.loss.item() == pytest.approx(expected)
    assert float(report.sums["correction_active"]) == pytest.approx(0.25)


def test_engine_mismatch_is_always_reported() -> None:
    report = loss(AlgorithmSpec(), rollout=tensor(ROLLOUT))
    logs = [1.0, 0.0, -0.1, -0.5]
    assert float(report.maxima["logprob_abs_diff_max"]) == pytest.approx(1.0)
    assert float(report.sums["logprob_abs_diff"]) == pytest.approx(1.6 / 4)
    assert float(report.sums["mismatch_kl"]) == pytest.approx(sum(math.exp(d) - d - 1 for d in logs) / 4)


def test_micro_batches_add_up_to_the_batch() -> None:
    algorithm = AlgorithmSpec(correction=CorrectionSpec(mode="clip", level="sequence"), kl_coef=0.3)
    extra = {"rollout": tensor(ROLLOUT), "reference": tensor(OLD)}
    full_loss = loss(algorithm, **extra)
    total = 0.0
    for half in (slice(0, 2), slice(2, 4)):
        parts = {key: value[half] for key, value in extra.items()}
        total += float(
            loss(
                algorithm,
                logprobs=tensor(LOGPROBS[half]),
                advantages=tensor(ADVANTAGES[half]),
                weights=torch.full((2,), 0.25),
                sequence=torch.zeros(2, dtype=torch.int64),
                sequences=1,
                old=tensor(OLD[half]),
                **parts,
            ).loss
        )
    assert total == pytest.approx(float(full_loss.loss))


def test_empty_micro_batch_has_loss_zero_and_no_extremes() -> None:
    nothing = torch.zeros(0)
    report = loss(
        AlgorithmSpec(),
        logprobs=nothing.clone().requires_grad_(),
        advantages=nothing,
        weights=nothing,
        sequence=nothing.long(),
        sequences=1,
        old=None,
    )
    assert float(report.loss) == 0.0 and report.maxima == {}


def test_weights_of_the_batch_override_those_of_the_micro_batch() -> None:
    corrections = {"correction": tensor([0.5] * 4), "correction_active": tensor([1.0, 0.0, 0.0, 0.0])}
    algorithm = AlgorithmSpec(correction=CorrectionSpec(mode="mask"))
    report = loss(algorithm, rollout=tensor(ROLLOUT), **corrections)
    assert report.loss.item() == pytest.approx(0.5 * loss(AlgorithmSpec()).loss.item())
    assert float(report.sums["correction_active"]) == pytest.approx(0.25)


def test_weights_of_a_batch_are_reported_for_means_of_other_figures() -> None:
    assert float(loss(AlgorithmSpec(), weights=torch.full((4,), 0.1)).sums["weight"]) == pytest.approx(0.4)


def test_mismatch_uses_the_current_policy_when_old_probabilities_are_the_engines() -> None:
    report = loss(AlgorithmSpec(old_logprobs="rollout"), old=tensor(ROLLOUT), rollout=tensor(ROLLOUT))
    gaps = [abs(p - r) for p, r in zip(LOGPROBS, ROLLOUT, strict=True)]
    assert float(report.sums["logprob_abs_diff"]) == pytest.approx(sum(gaps) / 4)


@pytest.mark.parametrize("bad", [{"clip_low": 1.5}, {"clip_high": -0.1}, {"temperature": 0.0}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        AlgorithmSpec(**bad)  # type: ignore[arg-type]
