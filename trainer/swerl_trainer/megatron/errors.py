"""Errors of the training ranks."""

from __future__ import annotations


class TrainerError(RuntimeError):
    """A training rank failed; the message names the rank, the failure and what to do."""


class LayoutError(TrainerError):
    """The parallel layout does not fit the model or the number of ranks."""


class ConversionError(TrainerError):
    """A Hugging Face checkpoint does not match the Megatron model; the message names the tensor."""


class WeightTransferError(TrainerError):
    """Weights could not be sent to the engines; the engines' weights are unknown until the next full transfer."""
