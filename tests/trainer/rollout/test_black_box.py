"""Rollouts of an agent that knows nothing of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from swerl_agent.episode import PROTOCOLS, AgentLimits, HFTokenizer
from swerl_agent.evaluation import opened_agent
from swerl_agent.grading import Verdict
from swerl_agent.tasks import Evaluation, Task
from swerl_trainer.driver.samples import samples_of
from swerl_trainer.rollout.group import GroupOrder
from swerl_trainer.rollout.parts import WorkerParts
from swerl_trainer.rollout.worker import Worker

from tests.scripted_engine import Script
from tests.unit.agent_episode.conftest import PLAIN, Memory, make_tokenizer

TASK = Task("t-1", "o/r", "0" * 40, "1", "fix it", "image", Evaluation("", "", "", ("t",), ()))
ORDER = GroupOrder("g0", "train", 0, 2, 1, 1.0)
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"


def block(command: str) -> str:
    return f"THOUGHT: next.\n\n```mswea_bash_command\n{command}\n```"


@dataclass
class Memories:
    """Sandboxes that run nothing, and a grader that is content."""

    age: float = 0.0
    idle_seconds: float = 0.0
    waits: Mapping[str, float] = field(default_factory=dict)

    async def declare(self, name: str, task: Task, replicas: int) -> Memories:
        return self

    def counts(self) -> tuple[int, int]:
        return 0, 0

    async def claim(self, ordinal: int) -> Memory:
        return Memory()

    async def release(self, ordinal: int) -> None: ...

    async def delete(self) -> None: ...

    async def grade(self, task: Task, patch: str, *, fresh: bool = False) -> Verdict:
        return Verdict("resolved", {}, 0.5, False, "said so")


async def test_mini_swe_agent_is_trained_on_the_tokens_that_were_sampled_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    tokenizer = HFTokenizer(make_tokenizer(tmp_path / "tokenizer", PLAIN))
    script = Script(tokenizer, [block("ls"), block(SUBMIT)])
    limits = AgentLimits(context_tokens=100_000, protocol=PROTOCOLS["mini-swe-agent-2"])
    async with opened_agent("mini-swe-agent", script, tokenizer, None, limits) as agent:
        parts = WorkerParts({"train": [TASK]}, Memories(), Memories(), agent, tmp_path / "artifacts", "x-{}".format)  # type: ignore[arg-type]
        rollout = await Worker(parts).run(ORDER, (0, 1), 0, 0)
    assert (rollout.valid, rollout.resolved, rollout.reward) == (True, True, 1.0)
    assert (rollout.exit_status, rollout.patch_source) == ("submitted", "submission")
    assert (rollout.turns, rollout.steps) == (2, 2)
    assert rollout.seconds["model"] > 0
    (sample,) = samples_of(rollout, per_step=False)
    trained = [tokenizer.decode(sample.tokens[start:end]) for _, start, end in sample.answers]
    assert trained == [f"{block('ls')}<|im_end|>", f"{block(SUBMIT)}<|im_end|>"]
    assert {p for p, mask in zip(sample.logprobs, sample.loss_mask, strict=True) if mask} == {-0.25}
    assert script.keys == {"g0/t-1"}, "episodes of a group share an engine's prefix cache"
    assert (tmp_path / "artifacts" / "step-0001").is_dir()
