"""A dispatcher of two prompts a step, and groups that come to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.dispatcher import Dispatcher, DispatchSettings
from swerl_trainer.rollout.group import Rollout, Start

SETTINGS = DispatchSettings(steps=4, prompts_per_step=2, group_size=2, prefetch=1, max_concurrent=100)


def dispatcher(tasks: int = 5, **changes: object) -> Dispatcher:
    return Dispatcher(replace(SETTINGS, **changes), TaskOrder(tasks, shuffle=False))


def started(actions: Sequence[object]) -> list[str]:
    return [action.order.id for action in actions if isinstance(action, Start)]


def finish(target: Dispatcher, group: str, rewards: Sequence[float | None]) -> None:
    """End the members of a group; None is a member that infrastructure ended."""
    for index, reward in enumerate(rewards):
        valid = reward is not None
        target.finished(Rollout(group, index, "t", valid=valid, reward=reward or 0.0))


def mixed(target: Dispatcher, groups: Sequence[str]) -> None:
    for group in groups:
        finish(target, group, [1.0, -1.0])
