"""Training samples of a rollout. Pure."""

from __future__ import annotations

from dataclasses import replace

from swerl_agent.episode import TokenSegment, training_segments
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.training_sample import TrainingSample
from swerl_trainer.rollout.group import Rollout

SUBMITTED = "submitted"  # the one exit status that a compact filter trains


def training_samples(rollout: Rollout, algorithm: AlgorithmSpec) -> list[TrainingSample]:
    """The segments of a trajectory; with `dynamicHistory` one sample per answer, with the context it was sampled in.

    With stepwise rewards, an answer is worth the outcome plus its own score times `judgeWeight`; otherwise the
    trajectory is worth its reward. A rollout without tokens counts in its group's statistics and trains nothing. With
    `compactFilter` the same holds for a rollout that did not submit.
    """
    segments = training_segments(rollout.segments, dynamic_history=algorithm.dynamic_history) or [TokenSegment()]
    if algorithm.compact_filter and rollout.exit_status != SUBMITTED:
        segments = [replace(segment, loss_mask=[0] * len(segment.loss_mask)) for segment in segments]
    samples = [_sample(rollout, segment, number) for number, segment in enumerate(segments)]
    if not algorithm.stepwise.enabled:
        return samples
    weight = algorithm.stepwise.judge_weight
    rewards = {step: rollout.outcome + weight * score for step, score in rollout.step_scores.items()}
    return [replace(sample, reward=rollout.outcome, step_rewards=rewards) for sample in samples]


def _sample(rollout: Rollout, segment: TokenSegment, number: int) -> TrainingSample:
    return TrainingSample(
        tokens=segment.tokens,
        loss_mask=segment.loss_mask,
        logprobs=segment.logprobs,
        reward=rollout.reward,
        valid=rollout.valid,
        group=rollout.group,
        index=rollout.index,
        instance_id=rollout.instance_id,
        step=number,
        answers=segment.answers,
    )
