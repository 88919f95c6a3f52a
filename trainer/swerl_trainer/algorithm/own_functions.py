"""Losses, advantages and rewards of the user's own, by import path (`package.module.function`).

Types: `policy_loss.LossFunction`, `advantages.AdvantageFunction`, `rollout.reward.RewardFunction`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.errors import AlgorithmError

FIELDS = ("loss", "advantage", "reward")


@cache
def own_function(field: str, path: str) -> Callable[..., Any]:
    """The function that `algorithm.<field>` names. Raises AlgorithmError when it cannot be imported."""
    module, _, name = path.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # what an import raises is the module's own choice
        raise AlgorithmError(
            f"algorithm.{field}: cannot import {path}: {error}; install its package in trainer.image"
        ) from error
    if not callable(function):
        raise AlgorithmError(f"algorithm.{field}: {path} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def check_own_functions(algorithm: AlgorithmSpec) -> None:
    """Raises AlgorithmError when a function that `algorithm` names cannot be imported."""
    for field in FIELDS:
        if path := getattr(algorithm, field):
            own_function(field, path)
