"""A range of a tensor's elements is divided into boxes that hold just these elements, in their order."""

from __future__ import annotations

import random

import pytest
import torch
from swerl_trainer.megatron.optimizer_parts import boxes


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
