"""A worker's promises about sandboxes, grading and artifacts, with sandboxes in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from swerl_agent.episode import AgentLimits, EngineError, Generation, Prompts
from swerl_agent.grading import Verdict
from swerl_agent.judge import Judge, JudgeSettings
from swerl_agent.kube import Unreachable
from swerl_agent.sandbox import CommandResult, PodGone
from swerl_agent.tasks import Evaluation, Task
from swerl_trainer.rollout.group import GroupOrder, Waste
from swerl_trainer.rollout.worker import Worker, WorkerParts

PATCH = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
TASK = Task("t-1", "o/r", "0" * 40, "1", "fix it", "image", Evaluation("", "", "", ("t",), ()))
ORDER = GroupOrder("g0", "train", 0, 2, 1, 1.0)
MEMBERS = (0, 1)


class Letters:
    """A tokenizer whose tokens are characters."""

    stop_token_ids = (0,)
    turn_end_id = tool_end_id = 0
    vocab_size = 1000

    def encode(self, text: str) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i)

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return [1]

    def delta(self, *contents: str, role: str = "user") -> list[int]:
        return [1]


@dataclass
class World:
    """Everything around the worker, and what it was asked for."""

    events: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    broken_engine: bool = False
    votes: int = 0  # the judge was asked for
    broken_judge: bool = False
    verdict: str = "resolved"
    hang: asyncio.Event | None = None
    age: float = 0.0
    idle_seconds: float = 7.0
    waits: Mapping[str, float] = field(default_factory=lambda: {"queue": 1.0, "pull": 2.0})
    refused: bool = False  # the API server refuses sandboxes

    async def declare(self, name: str, task: Task, replicas: int) -> World:
        self.events.append(f"declare {name} {replicas}")
        if self.refused:
            raise Unreachable("connection refused")
        return self

    def counts(self) -> tuple[int, int]:
        return 0, 0

    async def claim(self, ordinal: int) -> World:
        if ordinal in self.lost:
            raise PodGone("evicted")
        return self

    async def release(self, ordinal: int) -> None:
        self.events.append(f"release {ordinal}")

    async def delete(self) -> None:
        self.events.append("delete")

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = 0,
    ) -> CommandResult:
        return CommandResult("c", 0, PATCH, b"", len(PATCH), 0, False, 0.0)

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
    ) -> Generation:
        if self.hang is not None:
            await self.hang.wait()
        if self.broken_engine:
            raise EngineError("no answer")
        return Generation([65, 0], [-0.1, -0.2], "stop", [("1", 0, 2)])

    async def vote(self, input_ids: Sequence[int], **sampling: object) -> Generation:
        self.votes += 1
        if self.broken_judge:
            raise EngineError("no vote")
        text = r"\boxed{1}" if self.votes % 3 else r"\boxed{-1}"
        return Generation([ord(c) for c in text], [-0.1] * len(text), "stop")

    async def grade(self, task: Task, patch: str, *, fresh: bool = False) -> Verdict:
        self.events.append("grade anew" if fresh else "grade")
        return Verdict(self.verdict, {}, 0.5, False, "said so")  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def worker(world: World, tmp_path: Path) -> Worker:
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    limits = AgentLimits(step_limit=1)
    tasks = {"train": [TASK]}
    return Worker(WorkerParts(tasks, world, world, world, Letters(), prompts, limits, tmp_path, "x-{}".format))


async def test_the_sandbox_is_removed_before_the_patch_is_graded(worker: Worker, world: World) -> None:
    first = await worker.run(ORDER, MEMBERS, 0, 0)
    assert world.events == ["declare x-g0 2", "release 0", "grade"]
    await worker.run(ORDER, MEMBERS, 1, 0)
    assert world.events[3:] == ["delete", "grade"]
    assert (first.reward, first.resolved, first.valid, first.verdict) == (1.0, True, True, "resolved")
    assert first.seconds["grading"] == 0.5
    assert first.waits == {"queue": 1.0, "pull": 2.0}


async def test_sandboxes_declared_ahead_are_used(worker: Worker, world: World) -> None:
    await worker.declare(ORDER, MEMBERS, 0)
    await worker.run(ORDER, MEMBERS, 0, 0)
    assert [event for event in world.events if event.startswith("declare")] == ["declare x-g0 2"]


async def test_sandboxes_that_waited_too_long_are_replaced_and_count_as_waste(world: World, tmp_path: Path) -> None:
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    parts = WorkerParts({"train": [TASK]}, world, world, world, Letters(), prompts, AgentLimits(step_limit=1),
                        tmp_path, "x-{}".format, max_age=100.0)  # fmt: skip
    worker = Worker(parts)
    await worker.declare(ORDER, MEMBERS, 0)
    await asyncio.sleep(0)
    world.age = 101.0
    assert (await worker.run(ORDER, MEMBERS, 0, 0)).valid and (await worker.run(ORDER, MEMBERS, 1, 0)).valid
    asked = [event for event in world.events if event.startswith("declare")]
    assert asked == ["declare x-g0 2", "declare x-g0-n0 2"] and world.events.count("delete") == 2
    assert await worker.waste() == Waste(1, 7.0)


async def test_sandboxes_nobody_used_are_waste_and_those_in_use_are_not(worker: Worker, world: World) -> None:
    await worker.declare(ORDER, MEMBERS, 0)
    await worker.discard(ORDER)
    assert await worker.waste() == Waste(1, 7.0)
    await worker.run(ORDER, MEMBERS, 0, 0)
    await worker.discard(ORDER)
    assert await worker.waste() == Waste(1, 7.0)


async def test_a_lost_sandbox_is_no_reward(worker: Worker, world: World) -> None:
    world.lost = {1}
    rollout = await worker.run(ORDER, MEMBERS, 1, 0)
    assert (rollout.valid, rollout.error_code) == (False, "pod_gone")
    again = await worker.run(ORDER, (1,), 1, 1)
    assert again.valid
    assert "declare x-g0-r1 1" in world.events


async def test_a_silent_engine_is_no_reward_and_is_not_graded(worker: Worker, world: World) -> None:
    world.broken_engine = True
    rollout = await worker.run(ORDER, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.error_code) == (False, "engine_lost")
    assert "grade" not in world.events


async def test_an_api_server_that_is_away_is_no_fault_of_ours(worker: Worker, world: World) -> None:
    world.refused = True
    rollout = await worker.run(ORDER, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.error_code) == (False, "api_error")


async def test_an_unresolved_task_is_worth_what_the_job_says(world: World, tmp_path: Path) -> None:
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    parts = WorkerParts({"train": [TASK]}, world, world, world, Letters(), prompts, AgentLimits(step_limit=1),
                        tmp_path, "x-{}".format, unresolved_reward=0.0)  # fmt: skip
    world.verdict = "unresolved"
    rollout = await Worker(parts).run(ORDER, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.outcome, rollout.reward) == (True, 0.0, 0.0)


async def test_a_reference_fix_is_graded_anew(world: World, tmp_path: Path) -> None:
    fixed = replace(TASK, evaluation=replace(TASK.evaluation, patch="diff"))
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    parts = WorkerParts({"train": [TASK, fixed]}, world, world, world, Letters(), prompts, AgentLimits(), tmp_path, str)
    worker = Worker(parts)
    verdict = await worker.grade_fix(1)
    assert verdict is not None and verdict.resolved
    assert await worker.grade_fix(0) is None, "it has no reference fix"
    assert world.events == ["grade anew"]


async def test_failed_grading_is_masked_and_failed_tests_are_not(worker: Worker, world: World) -> None:
    world.verdict = "infra_error"
    lost = await worker.run(ORDER, MEMBERS, 0, 0)
    assert (lost.valid, lost.error_code) == (False, "eval_infra_error")
    world.verdict = "timeout"
    rollout = await worker.run(ORDER, MEMBERS, 1, 0)
    assert (rollout.valid, rollout.reward) == (True, -1.0)


async def test_every_episode_leaves_its_artifacts(worker: Worker, tmp_path: Path) -> None:
    await worker.run(ORDER, MEMBERS, 0, 0)
    (folder,) = (tmp_path / "step-0001").iterdir()
    assert {path.name for path in folder.iterdir()} == {"traj.json", "patch.diff", "meta.json"}


async def test_nothing_of_a_discarded_group_goes_on(worker: Worker, world: World) -> None:
    world.hang = asyncio.Event()
    running = [asyncio.create_task(worker.run(ORDER, MEMBERS, index, 0)) for index in MEMBERS]
    await asyncio.sleep(0.05)
    await worker.discard(ORDER)
    rollouts = await asyncio.gather(*running)
    assert [(rollout.valid, rollout.error_code) for rollout in rollouts] == [(False, "discarded")] * 2
    assert world.events.count("delete") == 1


@dataclass
class Voting:
    """The world's judge, as an engine."""

    world: World

    async def generate(self, input_ids: Sequence[int], **sampling: object) -> Generation:
        return await self.world.vote(input_ids, **sampling)


COMMAND = "```bash\nls\n```"


@pytest.fixture
def judged_worker(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    ids = [*map(ord, COMMAND), 0]
    monkeypatch.setattr(
        world, "generate", lambda input_ids, **sampling: answered(Generation(ids, [-0.1] * len(ids), "stop"))
    )
    prompts = Prompts("s", "{{ task }}", "again", "{{ output.output }}")
    judge = Judge(Voting(world), Letters(), JudgeSettings(votes=3))
    tasks = {"train": [TASK], "evaluation": [TASK]}
    parts = WorkerParts(
        tasks, world, world, world, Letters(), prompts, AgentLimits(step_limit=1), tmp_path, "x-{}".format
    )
    return Worker(replace(parts, judge=judge, judge_weight=0.5))


async def answered(generation: Generation) -> Generation:
    return generation


async def test_the_judges_mean_score_is_added_with_its_weight(judged_worker: Worker, tmp_path: Path) -> None:
    rollout = await judged_worker.run(ORDER, MEMBERS, 0, 0)
    assert rollout.step_scores == {0: pytest.approx(1 / 3)}
    assert (rollout.outcome, rollout.reward) == (1.0, pytest.approx(1.0 + 0.5 / 3))
    (folder,) = (tmp_path / "step-0001").iterdir()
    (score,) = json.loads((folder / "meta.json").read_text())["step_scores"]
    assert sorted(score["votes"]) == [-1, 1, 1]


async def test_without_its_judge_an_episode_is_worth_its_outcome(judged_worker: Worker, world: World) -> None:
    world.broken_judge = True
    rollout = await judged_worker.run(ORDER, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.reward, rollout.unscored_steps) == (True, 1.0, 1)


async def test_the_sandbox_is_gone_before_the_judge_is_waited_for(judged_worker: Worker, world: World) -> None:
    await judged_worker.run(ORDER, MEMBERS, 0, 0)
    assert world.events == ["declare x-g0 2", "release 0", "grade"]


async def test_held_out_episodes_are_not_judged(judged_worker: Worker, world: World) -> None:
    await judged_worker.run(replace(ORDER, purpose="evaluation"), MEMBERS, 0, 0)
    assert world.votes == 0
