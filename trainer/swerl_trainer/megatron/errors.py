"""Errors of the training ranks."""

from __future__ import annotations


class TrainerError(RuntimeError):
    """A training rank cannot go on; the message says which rank, what failed and what to do."""


class LayoutError(TrainerError):
    """The parallel layout does not fit the model or the number of ranks."""


class ConversionError(TrainerError):
    """A Hugging Face checkpoint and the Megatron model disagree about a tensor."""


class WeightTransferError(TrainerError):
    """Weights could not be sent to the engines; the engines' weights are unknown until the next full transfer."""
