"""Bytes that a step moves, against sums done by hand for a model of round sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swerl_plan.layout import Layout
from swerl_plan.memory import TrainingSettings
from swerl_plan.shape import ModelShape
from swerl_plan.traffic import StepWork, step_traffic

SHAPE = ModelShape(
    layers=4,
    hidden=100,
    heads=10,
    kv_heads=2,
    head_size=10,
    intermediate=200,
    vocabulary=1000,
    context=5000,
    tied=False,
)
# A layer: q and o 2 x 10,000, k and v 2 x 2,000, MLP 3 x 20,000, two norms of 100.
LAYER = 84_200
PARAMETERS = 4 * LAYER + 2 * 100_000 + 100  # two embeddings, the last norm: 536,900
BF16 = TrainingSettings(2, 1000, "none", offload=False, colocate=False, reference=False)
WORK = StepWork(tokens=8000, context=1000, updates=3, forwards=1)
ROW = 2 * 100  # bytes of one token's hidden state


def sent(layout: Layout, settings: TrainingSettings = BF16) -> dict[str, int]:
    return dict(step_traffic(SHAPE, layout, settings, WORK).sent)


def test_one_rank_sends_nothing() -> None:
    assert SHAPE.parameters == PARAMETERS
    assert sent(Layout(pods=1, gpus=1)) == {}


@pytest.mark.parametrize(("recompute", "passes"), [("none", 4), ("full", 5)])
def test_tensor_parallelism_exchanges_four_times_a_layer_and_pass(recompute: str, passes: int) -> None:
    """Passes: forward, backward twice, log-probabilities, and forward again with recomputation. A rank sends three
    quarters of each row: it keeps its own."""
    settings = replace(BF16, recompute="full" if recompute == "full" else "none")
    assert sent(Layout(pods=1, gpus=4, tensor=4), settings) == {"tensor": passes * 4 * 4 * 8000 * ROW * 3 // 4}


def test_pipeline_stages_send_each_row_forward_back_and_for_log_probabilities() -> None:
    assert sent(Layout(pods=1, gpus=2, pipeline=2)) == {"pipeline": 3 * 8000 * ROW}
    assert sent(Layout(pods=1, gpus=2, pipeline=2, virtual=2)) == {"pipeline": 2 * 3 * 8000 * ROW}


def test_copies_send_gradients_in_fp32_and_new_weights_in_bf16_per_update() -> None:
    """Each of 4 ranks keeps a quarter of the parameters."""
    assert sent(Layout(pods=1, gpus=4)) == {"data": 3 * (4 + 2) * PARAMETERS * 3 // 4}


def test_axes_together_divide_tokens_and_parameters() -> None:
    layout = Layout(pods=2, gpus=4, tensor=2, pipeline=2)  # 2 copies of 4,000 tokens
    whole = 2 * 200 + 100  # norms of a stage's two layers, and the last norm
    stage = 2 * (LAYER - 200) // 2 + 100_000 // 2 + whole  # matrices and output layer in two parts
    assert sent(layout) == {
        "tensor": 4 * 2 * 4 * 4000 * ROW // 2,
        "pipeline": 3 * 4000 * ROW // 2,
        "data": 3 * 6 * stage // 2,
    }


def test_update_sends_every_weight_once_and_a_checkpoint_has_the_optimizer_too() -> None:
    traffic = step_traffic(SHAPE, Layout(pods=1, gpus=4, tensor=4), BF16, WORK)
    assert traffic.update == 2 * PARAMETERS
    assert traffic.checkpoint == (2 + 12) * PARAMETERS  # fp32 weight and two moments
    assert step_traffic(SHAPE, Layout(pods=1, gpus=4), replace(BF16, bytes_per_weight=4), WORK).update == 4 * PARAMETERS


def test_network_between_pods_is_slower_than_the_links_of_one() -> None:
    inside, across = (step_traffic(SHAPE, Layout(pods=pods, gpus=4 // pods), BF16, WORK) for pods in (1, 2))
    assert inside.sent == across.sent
    data = inside.sent["data"]
    assert across.seconds - inside.seconds == pytest.approx(data / 2.5e10 - data / 3e11)
