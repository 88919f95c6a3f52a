"""Rollouts of an agent that knows nothing of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from swerl_agent.episode import HFTokenizer
from swerl_agent.evaluation import open_agent
from swerl_api import AlgorithmSpec
from swerl_trainer.driver.training_samples import training_samples
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.worker import Worker

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script
from tests.unit.agent.episode.conftest import PLAIN, CannedSession, make_tokenizer

from .conftest import REQUEST, TASK, Fakes, run

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"


def block(command: str) -> str:
    return f"THOUGHT: next.\n\n```mswea_bash_command\n{command}\n```"


@dataclass
class FakesWithoutCommands(Fakes):
    """Sandboxes that run no command."""

    async def claim(self, ordinal: int) -> CannedSession:  # type: ignore[override]
        return CannedSession()


async def test_mini_swe_agent_is_trained_on_its_sampled_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    tokenizer = HFTokenizer(make_tokenizer(tmp_path / "tokenizer", PLAIN))
    script = Script(tokenizer, [block("ls"), block(SUBMIT)])
    spec = agent_spec(kind="mini-swe-agent", protocol="mini-swe-agent-2")
    async with open_agent(spec, script, tokenizer, None) as agent:
        dependencies = WorkerDependencies(
            {"train": [TASK]},
            FakesWithoutCommands(),
            FakesWithoutCommands(),
            agent,
            tmp_path / "artifacts",
            "x-{}".format,
        )  # type: ignore[arg-type]
        rollout = await run(Worker(dependencies), REQUEST, (0, 1), 0, 0)
    assert (rollout.valid, rollout.resolved, rollout.reward) == (True, True, 1.0)
    assert (rollout.exit_status, rollout.patch_source) == ("submitted", "submission")
    assert (rollout.turns, rollout.commands) == (2, 2)
    assert rollout.seconds["model"] > 0
    (sample,) = training_samples(rollout, AlgorithmSpec())
    trained = [tokenizer.decode(sample.tokens[start:end]) for _, start, end in sample.answers]
    assert trained == [f"{block('ls')}<|im_end|>", f"{block(SUBMIT)}<|im_end|>"]
    assert {p for p, mask in zip(sample.logprobs, sample.loss_mask, strict=True) if mask} == {-0.25}
    assert script.keys == {"g0/t-1"}, "episodes of a group share an engine's prefix cache"
    assert (tmp_path / "artifacts" / "step-0001").is_dir()
