"""Estimates of the KL divergence against plain numpy, and the penalty in rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from swerl_api.algorithm import AlgorithmSpec
from swerl_trainer.algorithm import TrainingSample, group_advantages, rollout_batch
from swerl_trainer.algorithm.kl import kl_estimate, penalised
from swerl_trainer.algorithm.loss import micro_batch_loss
from swerl_trainer.algorithm.policy_loss import TokenTerms

POLICY = np.array([-1.0, -2.0, -0.5, -3.0])
REFERENCE = np.array([-1.2, -2.0, -0.9, -2.0])
ESTIMATES: dict[Any, Any] = {
    "k1": lambda p, q: p - q,
    "k2": lambda p, q: (p - q) ** 2 / 2,
    "k3": lambda p, q: np.exp(q - p) - 1 - (q - p),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_value_and_gradient_match_the_formula(name: Any) -> None:
    policy = torch.tensor(POLICY, requires_grad=True)
    estimate = kl_estimate(policy, torch.tensor(REFERENCE), name)
    assert estimate.detach().numpy() == pytest.approx(ESTIMATES[name](POLICY, REFERENCE))
    torch.autograd.backward(estimate.sum())
    step = 1e-6
    slope = (ESTIMATES[name](POLICY + step, REFERENCE) - ESTIMATES[name](POLICY - step, REFERENCE)) / (2 * step)
    assert policy.grad is not None and policy.grad.numpy() == pytest.approx(slope, abs=1e-6)


def test_k1_and_k3_are_unbiased() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    for name in ("k1", "k3"):
        estimate = kl_estimate(torch.tensor(np.log(p)), torch.tensor(np.log(q)), name)
        assert float((torch.tensor(p) * estimate).sum()) == pytest.approx(float((p * np.log(p / q)).sum()))


@pytest.mark.parametrize("name", ESTIMATES)
def test_penalty_in_the_loss_is_its_weighted_mean(name: Any) -> None:
    terms = TokenTerms(
        logprobs=torch.tensor(POLICY, requires_grad=True),
        advantages=torch.zeros(4),
        weights=torch.full((4,), 0.25),
        sequence=torch.zeros(4, dtype=torch.int64),
        sequences=1,
        reference=torch.tensor(REFERENCE),
    )
    report = micro_batch_loss(terms, AlgorithmSpec(kl_coef=0.1, kl_estimator=name))
    assert report.loss.item() == pytest.approx(0.1 * ESTIMATES[name](POLICY, REFERENCE).mean())
    assert micro_batch_loss(terms, AlgorithmSpec(kl_coef=0.1, kl_in="reward")).loss.item() == 0.0


def sample(reward: float, index: int, step: int = 0, *, valid: bool = True, mask: int = 1) -> TrainingSample:
    return TrainingSample([1, 2], [0, mask], [0.0, -1.0], reward, valid, "g", index, "task", step)


def test_penalty_in_the_reward_is_that_of_the_whole_trajectory() -> None:
    samples = [sample(1.0, 0), sample(1.0, 0, step=1), sample(-1.0, 1)]
    lowered = penalised(samples, {0: 2.0, 1: 1.0, 2: 0.5}, 0.1)
    assert [each.reward for each in lowered] == pytest.approx([0.7, 0.7, -1.05])
    advantages = group_advantages(lowered, scale_by_std=False)
    assert [advantages[i] for i in range(3)] == pytest.approx([0.875, 0.875, -0.875])


def test_log_probabilities_are_asked_of_valid_samples_with_trained_tokens() -> None:
    positions, batch = rollout_batch([sample(1, 0, valid=False), sample(1, 1), sample(1, 2, mask=0), sample(1, 3)])
    assert positions == [1, 3] and [s.trajectory for s in batch.sequences] == [("g", 1), ("g", 3)]
