"""A range of a tensor's elements is divided into boxes that hold just these elements, in their order; with them the
optimizer moves between layouts, value by value.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from swerl_api import LoraSpec
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.optimizer_parts import boxes

from .checkpoint_states import optimizer_states
from .families import MODELS, make_model

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "experts": ("qwen3-moe", {"expert_parallel": 2}),
    "adapters": ("qwen2", {"tensor_parallel": 2, "lora": LoraSpec(rank=4)}),
}


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 4), (6, 1), (2, 3, 4)])
def test_boxes_hold_the_range_in_order(shape: tuple[int, ...]) -> None:
    whole = torch.arange(torch.Size(shape).numel())
    rng = random.Random(1)
    ranges = [sorted(rng.choices(range(len(whole) + 1), k=2)) for _ in range(40)]
    for start, stop in [*ranges, [0, len(whole)]]:
        parts = [
            whole.view(shape)[tuple(slice(o, o + s) for o, s in zip(offset, size, strict=True))].flatten()
            for offset, size in boxes(shape, start, stop)
        ]
        assert torch.equal(torch.cat([*parts, whole[:0]]), whole[start:stop])
        assert len(parts) <= 2 * len(shape) - 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LAYOUTS)
def test_optimizer_moves_from_one_rank_to_four_and_back(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, tmp_path: Path, name: str
) -> None:
    family, layout = LAYOUTS[name]
    make_model(tmp_path / "model", **MODELS[family])
    config: dict[str, Any] = {"model": str(tmp_path / "model"), "lora": layout.get("lora")}
    alone = start(make_config(**config))
    for _ in range(2):
        alone.train_step(batch)
    alone.save(str(tmp_path / "alone"))
    report = run_ranks(4, {name: make_config(**config | layout)}, batch, checkpoint=str(tmp_path / "alone"))
    folder = report[name]["folder"]
    alone.load(str(folder / "checkpoint"))
    alone.save(str(tmp_path / "back"))
    for written, again in ((tmp_path / "alone", folder / "copy"), (folder / "checkpoint", tmp_path / "back")):
        states, moved = optimizer_states(written), optimizer_states(again)
        assert states.keys() == moved.keys() and len(states) > 6
        assert all(torch.equal(states[key], moved[key]) for key in states)
