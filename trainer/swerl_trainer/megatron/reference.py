"""The frozen start weights of one rank, in host memory, for KL penalties."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from torch import Tensor, nn


class ReferenceWeights:
    """A copy of a model's parameters at the time it is made."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._weights = self._copy()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Context in which the model has these weights."""
        current = self._copy()
        self._set(self._weights)
        try:
            yield
        finally:
            self._set(current)

    def _copy(self) -> list[Tensor]:
        return [parameter.detach().to("cpu", copy=True) for parameter in self._model.parameters()]

    def _set(self, weights: Sequence[Tensor]) -> None:
        for parameter, value in zip(self._model.parameters(), weights, strict=True):
            parameter.data.copy_(value)
