"""The loss, advantages and rewards that docs/algorithms.md and docs/own-reward.md show, called as a job calls them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from swerl_agent.episode import Episode
from swerl_agent.grading import Verdict
from swerl_api import AlgorithmSpec
from swerl_trainer.algorithm import TrainingSample, advantages_of
from swerl_trainer.algorithm.own_functions import check_own_functions
from swerl_trainer.algorithm.policy_loss import TokenTerms, policy_loss
from swerl_trainer.rollout.reward import rollout_of

DOCS = Path(__file__).resolve().parents[3] / "docs"
PATCH = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture(params=["algorithms", "own-reward"])
def shown(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A page's functions as a package of their own; its name."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / f"{request.param}.md").read_text(), re.DOTALL)
    name = f"shown_{request.param.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_shown_reward_is_higher_for_a_resolved_task(shown: str) -> None:
    algorithm = AlgorithmSpec(reward=f"{shown}.reward")
    check_own_functions(algorithm)
    episode = Episode("t", "g", 0, patch=PATCH, exit_status="submitted")
    resolved, unresolved = (
        rollout_of(episode, Verdict(status), {}, algorithm) for status in ("resolved", "unresolved")
    )
    assert resolved.reward == 1.0 > unresolved.reward
    assert rollout_of(Episode("t", "g", 0, exit_status="submitted"), None, {}, algorithm).reward <= 0


@pytest.mark.parametrize("shown", ["algorithms"], indirect=True)
def test_shown_loss_and_advantages_train(shown: str) -> None:
    algorithm = AlgorithmSpec(loss=f"{shown}.loss", advantage=f"{shown}.advantage")
    check_own_functions(algorithm)
    samples = [TrainingSample([1, 2], [0, 1], [0.0, -1.0], reward, True, "g", 0, "t", 0) for reward in (1.0, -1.0)]
    assert advantages_of(samples, algorithm) == {0: 1.0, 1: -1.0}
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    advantages, weights = torch.tensor([1.0, -1.0]), torch.full((2,), 0.5)
    terms = TokenTerms(logprobs, advantages, weights, torch.tensor([0, 1]), 2, old=torch.tensor([-1.5, -1.5]))
    loss, _ = policy_loss(terms, algorithm)
    assert loss.tolist() == pytest.approx((-(logprobs - terms.old_or_current).exp() * advantages).tolist())
