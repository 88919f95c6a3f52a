"""Losses of each algorithm against plain numpy: values, and gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from swerl_api.algorithm import AlgorithmSpec
from swerl_trainer.algorithm import AlgorithmError
from swerl_trainer.algorithm.policy_loss import TokenTerms, policy_loss
from torch import Tensor

Array = npt.NDArray[np.float64]
NumpyLoss = Callable[[Array], Array]

SEQUENCE = np.array([0, 0, 0, 1, 1, 1, 1, 2])
OLD = np.array([-1.5, -2.0, -0.1, -2.5, -1.0, -0.7, -3.0, -0.9])
LOGPROBS = OLD + np.array([0.5, 0.02, -0.4, -0.5, 0.3, -0.05, 1.9, -0.2])
ADVANTAGES = np.array([1.0, 1.0, 1.0, -2.0, -2.0, -2.0, -2.0, 0.5])
LOW, HIGH = 0.8, 1.28


def clipped(ratio: Array) -> Array:
    return -np.minimum(ratio * ADVANTAGES, np.clip(ratio, LOW, HIGH) * ADVANTAGES)


def grpo(logprobs: Array) -> Array:
    return clipped(np.exp(logprobs - OLD))


def dual(logprobs: Array) -> Array:
    loss = grpo(logprobs)
    return np.where(ADVANTAGES < 0, np.minimum(loss, -3.0 * ADVANTAGES), loss)


def gspo(logprobs: Array) -> Array:
    means = [np.mean((logprobs - OLD)[number == SEQUENCE]) for number in range(3)]
    return clipped(np.exp(np.array(means))[SEQUENCE])


def cispo(logprobs: Array) -> Array:
    return -np.clip(np.exp(LOGPROBS - OLD), LOW, HIGH) * ADVANTAGES * logprobs  # the weight has no gradient


def reinforce(logprobs: Array) -> Array:
    return -ADVANTAGES * logprobs


def cross_entropy(logprobs: Array) -> Array:
    return -logprobs


def tensor(values: Array) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def terms(**changes: object) -> TokenTerms:
    fields: dict[str, object] = {
        "logprobs": tensor(LOGPROBS).requires_grad_(),
        "advantages": tensor(ADVANTAGES),
        "weights": torch.full((len(OLD),), 1 / len(OLD), dtype=torch.float64),
        "sequence": torch.tensor(SEQUENCE),
        "sequences": 3,
        "old": tensor(OLD),
    }
    return TokenTerms(**(fields | changes))  # type: ignore[arg-type]


def numeric_gradient(loss: NumpyLoss) -> Array:
    """Gradient of the sum of `loss` at LOGPROBS."""
    steps = 1e-6 * np.eye(len(LOGPROBS))
    return np.array([(loss(LOGPROBS + step).sum() - loss(LOGPROBS - step).sum()) / 2e-6 for step in steps])


FORMULAS: list[tuple[AlgorithmSpec, NumpyLoss]] = [
    (AlgorithmSpec(name="grpo"), grpo),
    (AlgorithmSpec(name="grpo", dual_clip=3.0), dual),
    (AlgorithmSpec(name="rloo"), grpo),
    (AlgorithmSpec(name="reinforce_plus_plus"), grpo),
    (AlgorithmSpec(name="reinforce_plus_plus_baseline"), grpo),
    (AlgorithmSpec(name="gspo"), gspo),
    (AlgorithmSpec(name="cispo"), cispo),
    (AlgorithmSpec(name="reinforce"), reinforce),
    (AlgorithmSpec(name="sft"), cross_entropy),
]


@pytest.mark.parametrize(("algorithm", "formula"), FORMULAS, ids=lambda value: getattr(value, "__name__", ""))
def test_value_and_gradient_match_the_formula(algorithm: AlgorithmSpec, formula: NumpyLoss) -> None:
    arguments = terms()
    loss, _ = policy_loss(arguments, algorithm)
    assert loss.detach().numpy() == pytest.approx(formula(LOGPROBS))
    torch.autograd.backward(loss.sum())
    assert arguments.logprobs.grad is not None
    assert arguments.logprobs.grad.numpy() == pytest.approx(numeric_gradient(formula), abs=1e-6)


@pytest.mark.parametrize("name", ["grpo", "gspo", "cispo", "rloo"])
def test_on_policy_every_ratio_is_the_policy_gradient(name: str) -> None:
    arguments = terms(old=None)
    loss, metrics = policy_loss(arguments, AlgorithmSpec(name=name, loss_aggregation="sequence"))
    torch.autograd.backward(loss.sum())
    assert arguments.logprobs.grad is not None
    assert arguments.logprobs.grad.numpy() == pytest.approx(-ADVANTAGES)
    assert metrics["clip_fraction"].sum() == 0


def test_share_of_tokens_without_gradient_is_counted() -> None:
    for algorithm, inside in ((AlgorithmSpec(), [1, 2, 4, 5, 6, 7]), (AlgorithmSpec(dual_clip=3.0), [1, 2, 4, 5, 7])):
        _, metrics = policy_loss(terms(), algorithm)
        assert [i for i, value in enumerate(metrics["clip_fraction"].tolist()) if not value] == inside


def own_loss(terms: TokenTerms, algorithm: AlgorithmSpec) -> Tensor:
    return -terms.advantages * terms.logprobs * algorithm.clip_high


def one_number(terms: TokenTerms, algorithm: AlgorithmSpec) -> Tensor:
    return own_loss(terms, algorithm).sum()


def test_own_loss_replaces_the_named_one() -> None:
    loss, _ = policy_loss(terms(), AlgorithmSpec(loss=f"{__name__}.own_loss", clip_high=2.0))
    assert loss.detach().numpy() == pytest.approx(2.0 * reinforce(LOGPROBS))


def test_own_loss_must_give_one_value_per_token() -> None:
    with pytest.raises(AlgorithmError, match=r"one_number returned \[\], not one value per token \[8\]"):
        policy_loss(terms(), AlgorithmSpec(loss=f"{__name__}.one_number"))
