"""From an episode and its verdict to a rollout.

Guarantees: a resolved task has the outcome 1, every other ending of the policy `algorithm.unresolvedReward`; with
`algorithm.reward` that function decides. Where a
judge scores steps, the weighted mean of the scores is added. An episode that infrastructure or a failing template ended
does not count (`valid` is False).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from statistics import fmean

from swerl_agent.audit import AuditFinding
from swerl_agent.episode import PROMPT_FAILED, Episode, repeats_itself
from swerl_agent.grading import Verdict
from swerl_agent.judge import StepScore
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm.errors import AlgorithmError
from swerl_trainer.algorithm.own_functions import own_function
from swerl_trainer.rollout.group import Rollout

RESOLVED = 1.0
RewardFunction = Callable[[Episode, Verdict | None, AlgorithmSpec], float]
"""`algorithm.reward`: the reward of an episode that counts; without a patch it has no verdict."""
GRADING_FAILED = "eval_infra_error"  # error code of a rollout whose patch could not be graded
INFRASTRUCTURE_ENDINGS = (PROMPT_FAILED, "error", "cancelled")  # exit statuses that the policy did not cause


def needs_grading(episode: Episode) -> bool:
    """Whether the patch must be graded; without a patch the outcome is known, a lost episode has none."""
    return bool(episode.patch) and not _infrastructure_failed(episode)


def rollout_of(
    episode: Episode,
    verdict: Verdict | None,
    waited: Mapping[str, float],
    algorithm: AlgorithmSpec,
    *,
    scores: Mapping[int, StepScore] | None = None,
    waits: Mapping[str, float] | None = None,
    audit: Collection[AuditFinding] = (),
) -> Rollout:
    """The rollout of a finished episode.

    `waited`: seconds until it began, by cause. `waits`: seconds of the sandbox's start by part, where known. `audit`:
    findings on its commands.
    """
    infrastructure = _infrastructure_failed(episode) or (verdict is not None and verdict.status == "infra_error")
    resolved = verdict is not None and verdict.status == "resolved"
    grading = {"grading": verdict.duration} if verdict else {}
    outcome = 0.0 if infrastructure else _outcome(episode, verdict, algorithm)
    judged = scores or {}
    step_scores = {step: score.score for step, score in judged.items() if score.score is not None}
    return Rollout(
        group=episode.group,
        index=episode.index,
        instance_id=episode.instance_id,
        valid=not infrastructure,
        outcome=outcome,
        reward=outcome + (algorithm.stepwise.judge_weight * fmean(step_scores.values()) if step_scores else 0.0),
        step_scores=step_scores,
        unscored_steps=len(judged) - len(step_scores),
        resolved=resolved,
        verdict=verdict.status if verdict else "",
        exit_status=episode.exit_status,
        patch_source=episode.patch_source or "",
        error=episode.error or (verdict.detail if verdict and infrastructure else ""),
        error_code=_error_code(episode) if infrastructure else episode.error_code,
        cached=bool(verdict and verdict.cached),
        uncontrasted=resolved and verdict is not None and verdict.report.get("contrast") == "unavailable",
        segments=episode.segments,
        turns=episode.turns,
        commands=len(episode.commands),
        format_errors=episode.format_errors,
        omitted_turns=episode.omitted_turns,
        repeats=repeats_itself(episode),
        suspicions=frozenset(finding.rule for finding in audit),
        timeouts=_sum(episode, "timed_out"),
        exec_retries=_sum(episode, "retries"),
        handshake_errors=_sum(episode, "handshake_errors"),
        seconds={**episode.timings, **grading, **waited},
        waits=waits or {},
        usage=episode.usage,
    )


def _outcome(episode: Episode, verdict: Verdict | None, algorithm: AlgorithmSpec) -> float:
    if not algorithm.reward:
        return RESOLVED if verdict is not None and verdict.status == "resolved" else algorithm.unresolved_reward
    function: RewardFunction = own_function("reward", algorithm.reward)
    reward = float(function(episode, verdict, algorithm))
    if not math.isfinite(reward):
        raise AlgorithmError(f"algorithm.reward: {algorithm.reward} gave {reward} for {episode.instance_id}")
    return reward


def lost_rollout(group: str, index: int, instance_id: str, error: BaseException | str, code: str) -> Rollout:
    """The rollout of an episode that did not start or was lost."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return Rollout(
        group=group, index=index, instance_id=instance_id, valid=False, exit_status="lost", error=text, error_code=code
    )


def _infrastructure_failed(episode: Episode) -> bool:
    return episode.infrastructure_error or episode.exit_status in INFRASTRUCTURE_ENDINGS


def _error_code(episode: Episode) -> str:
    """The error code of a rollout that does not count."""
    return (episode.error_code or episode.exit_status) if _infrastructure_failed(episode) else GRADING_FAILED


def _sum(episode: Episode, field: str) -> int:
    return sum(int(step.get(field) or 0) for step in episode.commands)
