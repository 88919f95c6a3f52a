"""From a rollout to what is trained on. Pure."""

from __future__ import annotations

from dataclasses import replace

from swerl_agent.episode import TokenSegment, training_segments
from swerl_trainer.algorithm.sample import Sample
from swerl_trainer.rollout.group import Rollout

SUBMITTED = "submitted"  # the one exit status that a compact filter trains


def samples_of(
    rollout: Rollout, *, per_step: bool, judge_weight: float | None = None, compact: bool = False
) -> list[Sample]:
    """The segments of a trajectory or, `per_step`, one sample per answer with the context it was sampled in.

    `judge_weight`, for step-wise rewards: an answer is worth the outcome and its own score with this weight; else the
    trajectory is worth its reward. A rollout without tokens, or with `compact` one that did not submit, gives samples
    that count for their group's statistics and train nothing.
    """
    parts = training_segments(rollout.segments, dynamic_history=per_step) or [TokenSegment()]
    if compact and rollout.exit_status != SUBMITTED:
        parts = [replace(part, loss_mask=[0] * len(part.loss_mask)) for part in parts]
    whole = [_sample(rollout, part, number) for number, part in enumerate(parts)]
    if judge_weight is None:
        return whole
    rewards = {step: rollout.outcome + judge_weight * score for step, score in rollout.step_scores.items()}
    return [replace(sample, reward=rollout.outcome, step_rewards=rewards) for sample in whole]


def _sample(rollout: Rollout, part: TokenSegment, number: int) -> Sample:
    return Sample(
        tokens=part.tokens,
        loss_mask=part.loss_mask,
        logprobs=part.logprobs,
        reward=rollout.reward,
        valid=rollout.valid,
        group=rollout.group,
        index=rollout.index,
        instance_id=rollout.instance_id,
        step=number,
        answers=part.answers,
    )
