"""The learning rule: samples to advantages to batches to a loss. Pure Python and torch; no Ray, no Megatron."""

from swerl_trainer.algorithm.advantages import (
    advantages_of,
    answer_advantages,
    compares_groups,
    group_advantages,
    groups_with_signal,
    has_signal,
)
from swerl_trainer.algorithm.batch import (
    Batch,
    TrainingSequence,
    advantage_metrics,
    corrected,
    demonstration_batch,
    minibatches,
    policy_batch,
    rollout_batch,
)
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.training_sample import TrainingSample

__all__ = [
    "AlgorithmError",
    "Batch",
    "TrainingSample",
    "TrainingSequence",
    "advantage_metrics",
    "advantages_of",
    "answer_advantages",
    "compares_groups",
    "corrected",
    "demonstration_batch",
    "group_advantages",
    "groups_with_signal",
    "has_signal",
    "minibatches",
    "policy_batch",
    "rollout_batch",
]
