"""From a rollout to what is trained on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swerl_trainer.algorithm.sample import Sample
from swerl_trainer.rollout.group import Rollout


def samples_of(rollout: Rollout, *, per_step: bool) -> list[Sample]:
    """One sample of the whole trajectory or, `per_step`, one per answer with all that came before it as context.

    A rollout without tokens, or with none that the policy sampled, gives a sample that counts for its group's
    statistics and trains nothing.
    """
    spans = list(_answers(rollout.loss_mask)) if per_step else []
    if len(spans) <= 1:
        return [_sample(rollout, len(rollout.tokens), rollout.loss_mask, 0)]
    samples = []
    for step, (start, end) in enumerate(spans):
        mask = [0] * start + list(rollout.loss_mask[start:end])
        samples.append(_sample(rollout, end, mask, step))
    return samples


def _sample(rollout: Rollout, end: int, mask: Sequence[int], step: int) -> Sample:
    return Sample(
        tokens=rollout.tokens[:end],
        loss_mask=mask,
        logprobs=rollout.logprobs[:end],
        reward=rollout.reward,
        valid=rollout.valid,
        group=rollout.group,
        index=rollout.index,
        instance_id=rollout.instance_id,
        step=step,
    )


def _answers(mask: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Spans of consecutive sampled tokens."""
    start = None
    for position, sampled in enumerate([*mask, 0]):
        if sampled and start is None:
            start = position
        elif not sampled and start is not None:
            yield start, position
            start = None
