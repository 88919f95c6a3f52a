"""A dispatcher of two prompts a step, and groups that come to their end."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_api import AlgorithmSpec, SandboxSpec
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.dispatcher import RETRIES, Dispatcher
from swerl_trainer.rollout.group import Rollout, StartMembers

ALGORITHM = AlgorithmSpec(steps=4, prompts_per_step=2, group_size=2)
SANDBOX = SandboxSpec(prefetch=1, max_concurrent=100)


def dispatcher(tasks: int = 5, *, retries: int = RETRIES, **changes: object) -> Dispatcher:
    """`changes`: fields of `spec.algorithm` and `spec.sandbox`."""
    assert changes.keys() <= AlgorithmSpec.model_fields.keys() | SandboxSpec.model_fields.keys()
    sandbox = {name: value for name, value in changes.items() if name in SandboxSpec.model_fields}
    algorithm = {name: value for name, value in changes.items() if name not in sandbox}
    return Dispatcher(
        ALGORITHM.model_copy(update=algorithm),
        SANDBOX.model_copy(update=sandbox),
        TaskOrder(tasks, shuffle=False, seed=0),
        retries=retries,
    )


def started(actions: Sequence[object]) -> list[str]:
    return [action.request.id for action in actions if isinstance(action, StartMembers)]


def finish(target: Dispatcher, group: str, rewards: Sequence[float | None]) -> None:
    """End the members of a group; None is a member that infrastructure ended."""
    for index, reward in enumerate(rewards):
        valid = reward is not None
        target.graded(Rollout(group, index, "t", valid=valid, reward=reward or 0.0))


def mixed(target: Dispatcher, groups: Sequence[str]) -> None:
    for group in groups:
        finish(target, group, [1.0, -1.0])
