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
    assert [TaskOrder(9, seed=1).task(i) for i in range(18)] == [TaskOrder(9, seed=1).task(i) for i in range(18)]
    assert [TaskOrder(9, seed=1).task(i) for i in range(9)] != [TaskOrder(9, seed=2).task(i) for i in range(9)]


def test_without_shuffling_tasks_keep_their_order() -> None:
    assert [TaskOrder(3, shuffle=False).task(i) for i in range(5)] == [0, 1, 2, 0, 1]


def test_no_tasks_is_an_error_that_names_the_place() -> None:
    with pytest.raises(ValueError, match=r"tasks\.source"):
        TaskOrder(0)
