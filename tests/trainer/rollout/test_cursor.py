"""The order of tasks."""

from __future__ import annotations

import pytest
from swerl_trainer.rollout.cursor import TaskOrder


def test_each_epoch_holds_every_task_once_in_another_order() -> None:
    order = TaskOrder(50, shuffle=True, seed=3)
    first, second = ([order.task(e * 50 + i) for i in range(50)] for e in (0, 1))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


def test_order_depends_on_the_seed_alone() -> None:
    def tasks(seed: int) -> list[int]:
        return [TaskOrder(9, shuffle=True, seed=seed).task(i) for i in range(18)]

    assert tasks(1) == tasks(1)
    assert tasks(1)[:9] != tasks(2)[:9]


def test_without_shuffling_tasks_keep_their_order() -> None:
    assert [TaskOrder(3, shuffle=False, seed=0).task(i) for i in range(5)] == [0, 1, 2, 0, 1]


def test_no_tasks_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"tasks\.source"):
        TaskOrder(0, shuffle=False, seed=0)
