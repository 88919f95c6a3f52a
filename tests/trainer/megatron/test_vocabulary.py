"""Log-probabilities and entropies in chunks, against plain numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from swerl_trainer.megatron.vocabulary import token_terms
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from .conftest import MakeConfig, Start

TOKENS, HIDDEN, WIDTH, VOCABULARY, TEMPERATURE = 7, 5, 12, 11, 0.7
LABELS = np.array([0, 10, 3, 3, 7, 9, 1])
RNG = np.random.default_rng(4)
STATES, WEIGHT = RNG.normal(size=(TOKENS, HIDDEN)), RNG.normal(size=(WIDTH, HIDDEN))
OF_LOGPROB, OF_ENTROPY = RNG.normal(size=(2, TOKENS))


def figures(states: Any, weight: Any) -> Any:
    """Float64 [2, n]: log softmax of the labels and entropy; the last column of the logits is padding."""
    logits = (states @ weight.T)[:, :VOCABULARY] / TEMPERATURE
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return np.stack([log_p[np.arange(TOKENS), LABELS], -(np.exp(log_p) * log_p).sum(1)])


def slope(function: Any, at: Any, step: float = 1e-6) -> Any:
    """Central differences of a scalar function."""
    found = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        moved = np.zeros_like(at)
        moved[place] = step
        found[place] = (function(at + moved) - function(at - moved)) / (2 * step)
    return found


@pytest.mark.parametrize("limit", [10_000, 24, 1])
@pytest.mark.parametrize("entropy_gradient", [True, False])
def test_values_and_gradients_equal_numpy(
    start: Start, make_config: MakeConfig, limit: int, entropy_gradient: bool
) -> None:
    start(make_config())
    states = torch.tensor(STATES, dtype=torch.float32)[:, None].requires_grad_()
    weight = torch.tensor(WEIGHT, dtype=torch.float32).requires_grad_()
    found = token_terms(
        states,
        torch.from_numpy(LABELS),
        lambda hidden: hidden[:, 0] @ weight.t(),
        width=WIDTH,
        vocabulary=VOCABULARY,
        temperature=TEMPERATURE,
        entropy_gradient=entropy_gradient,
        limit=limit,
    )
    assert found.detach().numpy() == pytest.approx(figures(STATES, WEIGHT), abs=1e-5)
    scales = np.stack([OF_LOGPROB, OF_ENTROPY if entropy_gradient else np.zeros(TOKENS)])
    (found * torch.tensor(scales, dtype=torch.float32)).sum().backward()
    assert states.grad is not None and weight.grad is not None
    of_states = slope(lambda moved: float((figures(moved, WEIGHT) * scales).sum()), STATES)
    of_weight = slope(lambda moved: float((figures(STATES, moved) * scales).sum()), WEIGHT)
    assert states.grad[:, 0].numpy() == pytest.approx(of_states, abs=1e-5)
    assert weight.grad.numpy() == pytest.approx(of_weight, abs=1e-5)


def test_bfloat16_logits_are_divided_by_the_temperature_in_float32(start: Start, make_config: MakeConfig) -> None:
    start(make_config())
    logits = torch.from_numpy(8 * RNG.normal(size=(TOKENS, 1, VOCABULARY))).to(torch.bfloat16)
    found = token_terms(
        logits,
        torch.from_numpy(LABELS),
        lambda rows: rows[:, 0],
        width=VOCABULARY,
        vocabulary=VOCABULARY,
        temperature=TEMPERATURE,
        entropy_gradient=False,
    ).numpy()
    exact, scale = logits[:, 0].double().numpy(), TEMPERATURE
    assert found == pytest.approx(figures(exact, np.eye(VOCABULARY)), abs=1e-5)
    rounded = (logits / scale)[:, 0].double().numpy() * scale  # divided in bfloat16
    assert np.abs(found - figures(rounded, np.eye(VOCABULARY))).max() > 1e-3


class Largest(TorchDispatchMode):
    """The most values of one float32 tensor that an operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float32:
            self.values = max(self.values, result.numel())
        return result


def test_no_more_logits_than_the_limit_are_float32_at_once(start: Start, make_config: MakeConfig) -> None:
    start(make_config())
    states = torch.randn(512, 1, 8, dtype=torch.bfloat16).requires_grad_()
    weight = torch.randn(1000, 8, dtype=torch.bfloat16).requires_grad_()
    with Largest() as largest:
        token_terms(
            states,
            torch.arange(512),
            lambda hidden: hidden[:, 0] @ weight.t(),
            width=1000,
            vocabulary=1000,
            temperature=0.8,
            entropy_gradient=True,
            limit=20_000,
        ).sum().backward()
    assert 10_000 < largest.values <= 20_000
    assert states.grad is not None and states.grad.isfinite().all()
