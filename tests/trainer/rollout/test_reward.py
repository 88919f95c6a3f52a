"""What an episode is worth."""

from __future__ import annotations

import pytest
from swerl_agent.episode import Episode
from swerl_agent.grading import Verdict
from swerl_agent.judge import StepScore
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm import AlgorithmError
from swerl_trainer.rollout.reward import needs_grading, rollout_of

PATCH = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("resolved", 1.0),
        ("unresolved", -1.0),
        ("patch_apply_failed", -1.0),
        ("policy_blocked", -1.0),
        ("timeout", -1.0),
    ],
)
def test_resolved_task_has_reward_one_and_others_minus_one(verdict: str, outcome: float) -> None:
    episode = Episode("t", "g", 0, patch=PATCH, exit_status="submitted")
    rollout = rollout_of(episode, Verdict(verdict), {}, AlgorithmSpec())  # type: ignore[arg-type]
    assert (rollout.valid, rollout.outcome, rollout.reward) == (True, outcome, outcome)


def test_missing_patch_has_reward_minus_one_and_is_not_graded() -> None:
    episode = Episode("t", "g", 0, exit_status="submitted")
    assert not needs_grading(episode)
    assert (
        rollout_of(episode, None, {}, AlgorithmSpec()).valid,
        rollout_of(episode, None, {}, AlgorithmSpec()).reward,
    ) == (True, -1.0)


def test_infrastructure_failure_gives_no_reward() -> None:
    graded = rollout_of(
        Episode("t", "g", 0, patch=PATCH, exit_status="submitted"), Verdict("infra_error"), {}, AlgorithmSpec()
    )
    lost = rollout_of(
        Episode("t", "g", 0, infrastructure_error=True, error="gone", error_code="pod_gone"), None, {}, AlgorithmSpec()
    )
    assert [rollout.valid for rollout in (graded, lost)] == [False, False]
    assert [rollout.error_code for rollout in (graded, lost)] == ["eval_infra_error", "pod_gone"]


def test_sandbox_that_commands_destroyed_is_unresolved_and_keeps_its_code() -> None:
    episode = Episode("t", "g", 0, exit_status="sandbox_destroyed", error_code="oom_killed")
    rollout = rollout_of(episode, None, {}, AlgorithmSpec())
    assert (rollout.valid, rollout.reward, rollout.error_code) == (True, -1.0, "oom_killed")


def test_mean_of_the_scores_is_added_to_the_outcome() -> None:
    scores = {0: StepScore(0, 1 / 3), 1: StepScore(1, None, error="down")}
    rollout = rollout_of(Episode("t", "g", 0, exit_status="max_steps"), None, {}, AlgorithmSpec(), scores=scores)
    assert (rollout.reward, rollout.unscored_steps) == (pytest.approx(-1 + 1 / 3), 1)


def length_reward(episode: Episode, verdict: Verdict | None, algorithm: AlgorithmSpec) -> float:
    return len(episode.patch or "") + (100.0 if verdict and verdict.status == "resolved" else 0.0)


def not_a_number(episode: Episode, verdict: Verdict | None, algorithm: AlgorithmSpec) -> float:
    return float("nan")


def test_own_reward_applies_to_valid_episodes() -> None:
    algorithm = AlgorithmSpec(reward=f"{__name__}.length_reward")
    episode = Episode("t", "g", 0, patch=PATCH, exit_status="submitted")
    assert rollout_of(episode, Verdict("resolved"), {}, algorithm).reward == 100 + len(PATCH)
    assert rollout_of(Episode("t", "g", 0, exit_status="submitted"), None, {}, algorithm).reward == 0
    assert not rollout_of(episode, Verdict("infra_error"), {}, algorithm).valid


def test_own_reward_that_is_no_number_is_refused() -> None:
    episode = Episode("t", "g", 0, exit_status="submitted")
    with pytest.raises(AlgorithmError, match=r"not_a_number gave nan for t"):
        rollout_of(episode, None, {}, AlgorithmSpec(reward=f"{__name__}.not_a_number"))
