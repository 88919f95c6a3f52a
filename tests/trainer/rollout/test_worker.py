"""A worker's promises about sandboxes, grading and scores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from swerl_agent.episode import Episode, Generation, RetokenizationError, TokenSegment
from swerl_agent.grading import Verdict
from swerl_agent.judge import Judge
from swerl_agent.tasks import Task
from swerl_api.algorithm import AlgorithmSpec, StepwiseSpec
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.group import UnusedPrefetch
from swerl_trainer.rollout.worker import Worker

from tests.agent_spec import judge_spec

from .conftest import MEMBERS, REQUEST, TASK, CharacterTokenizer, Fakes, builtin, run


async def test_sandbox_is_removed_before_the_patch_is_graded(worker: Worker, fakes: Fakes) -> None:
    first = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert fakes.events == ["declare x-g0 2", "release 0", "grade"]
    await run(worker, REQUEST, MEMBERS, 1, 0)
    assert fakes.events[3:] == ["delete", "grade"]
    assert (first.reward, first.resolved, first.valid, first.verdict) == (1.0, True, True, "resolved")
    assert first.seconds["grading"] == 0.5
    assert first.waits == {"queue": 1.0, "pull": 2.0}


async def test_episode_has_ended_once_its_sandbox_is_removed(
    worker: Worker, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    graded = asyncio.Event()
    monkeypatch.setattr(fakes, "grade", lambda task, patch, image: graded.wait())
    await worker.run_episode(REQUEST, MEMBERS, 0, 0)
    assert fakes.events[-1] == "release 0"
    await worker.discard(REQUEST)
    rollout = await worker.rollout(REQUEST, 0, 0)
    assert (rollout.valid, rollout.error_code) == (False, "discarded")


async def test_removal_of_a_sandbox_completes_when_its_group_is_discarded(worker: Worker, fakes: Fakes) -> None:
    fakes.releasing = asyncio.Event()
    acting = asyncio.create_task(worker.run_episode(REQUEST, MEMBERS, 0, 0))
    await asyncio.wait_for(fakes.release_started.wait(), 10)
    discarding = asyncio.create_task(worker.discard(REQUEST))
    await asyncio.sleep(0)
    assert "released 0" not in fakes.events
    fakes.releasing.set()
    await asyncio.gather(acting, discarding)
    await worker.close()
    assert "released 0" in fakes.events


async def test_sandboxes_declared_ahead_are_used(worker: Worker, fakes: Fakes) -> None:
    await worker.declare(REQUEST, MEMBERS, 0)
    await run(worker, REQUEST, MEMBERS, 0, 0)
    assert [event for event in fakes.events if event.startswith("declare")] == ["declare x-g0 2"]


async def test_expired_prefetched_sandboxes_are_replaced_and_counted_as_unused(
    fakes: Fakes, dependencies: WorkerDependencies
) -> None:
    worker = Worker(replace(dependencies, max_age=100.0))
    await worker.declare(REQUEST, MEMBERS, 0)
    await asyncio.sleep(0)
    fakes.age = 101.0
    assert (await run(worker, REQUEST, MEMBERS, 0, 0)).valid and (await run(worker, REQUEST, MEMBERS, 1, 0)).valid
    declarations = [event for event in fakes.events if event.startswith("declare")]
    assert declarations == ["declare x-g0 2", "declare x-g0-n0 2"] and fakes.events.count("delete") == 2
    assert await worker.unused_prefetch() == UnusedPrefetch(1, 7.0)


async def test_only_unused_sandboxes_are_counted_as_unused(worker: Worker, fakes: Fakes) -> None:
    await worker.declare(REQUEST, MEMBERS, 0)
    await worker.discard(REQUEST)
    assert await worker.unused_prefetch() == UnusedPrefetch(1, 7.0)
    await run(worker, REQUEST, MEMBERS, 0, 0)
    await worker.discard(REQUEST)
    assert await worker.unused_prefetch() == UnusedPrefetch(1, 7.0)


async def test_lost_sandbox_is_no_reward(worker: Worker, fakes: Fakes) -> None:
    fakes.lost = {1}
    rollout = await run(worker, REQUEST, MEMBERS, 1, 0)
    assert (rollout.valid, rollout.error_code) == (False, "pod_gone")
    second = await run(worker, REQUEST, (1,), 1, 1)
    assert second.valid
    assert "declare x-g0-r1 1" in fakes.events


async def test_unresponsive_engine_gives_no_reward_and_no_grading(worker: Worker, fakes: Fakes) -> None:
    fakes.broken_engine = True
    rollout = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.error_code) == (False, "engine_lost")
    assert "grade" not in fakes.events


async def test_unreachable_api_server_is_an_infrastructure_failure(worker: Worker, fakes: Fakes) -> None:
    fakes.refused = True
    rollout = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.error_code) == (False, "api_error")


async def test_unresolved_task_gets_the_jobs_reward(fakes: Fakes, dependencies: WorkerDependencies) -> None:
    fakes.verdict = "unresolved"
    rollout = await run(
        Worker(replace(dependencies, algorithm=AlgorithmSpec(unresolved_reward=0.0))), REQUEST, MEMBERS, 0, 0
    )
    assert (rollout.valid, rollout.outcome, rollout.reward) == (True, 0.0, 0.0)


async def test_reference_fix_is_graded_again(fakes: Fakes, dependencies: WorkerDependencies) -> None:
    fixed = replace(TASK, ground_truth=replace(TASK.ground_truth, patch="diff"))
    worker = Worker(replace(dependencies, tasks={"train": [TASK, fixed]}))
    verdict = await worker.grade_reference_fix(1)
    assert verdict is not None and verdict.resolved
    assert await worker.grade_reference_fix(0) is None, "it has no reference fix"
    assert fakes.events == ["grade again"]


async def test_failed_grading_is_masked_and_failed_tests_are_not(worker: Worker, fakes: Fakes) -> None:
    fakes.verdict = "infra_error"
    lost = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (lost.valid, lost.error_code) == (False, "eval_infra_error")
    fakes.verdict = "timeout"
    rollout = await run(worker, REQUEST, MEMBERS, 1, 0)
    assert (rollout.valid, rollout.reward) == (True, -1.0)


async def test_grading_may_take_longer_than_the_episode(
    dependencies: WorkerDependencies, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def grade(task: Task, patch: str, *, image: str) -> Verdict:
        await asyncio.sleep(0.4)
        return Verdict("resolved")

    monkeypatch.setattr(fakes, "grade", grade)
    assert (
        await run(
            Worker(replace(dependencies, agent=builtin(fakes, episode_timeout_seconds=0.2))), REQUEST, MEMBERS, 0, 0
        )
    ).resolved


async def test_worker_can_train_on_retokenized_text(dependencies: WorkerDependencies, tmp_path: Path) -> None:
    one_segment = TokenSegment([1, 65, 0], [0, 1, 1], answers=[(0, 1, 3)])
    worker = Worker(replace(dependencies, encode=lambda episode: [one_segment]))
    rollout = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.segments, rollout.sampled_tokens) == (True, [one_segment], 2)
    (folder,) = (tmp_path / "step-0001").iterdir()
    (sampled,) = json.loads((folder / "traj.json").read_text())["segments"]
    assert sampled["logprobs"] == [0.0, -0.1, -0.2]


async def test_suspicious_actions_of_an_episode_are_reported(worker: Worker, fakes: Fakes, tmp_path: Path) -> None:
    fakes.answer = "```bash\ngit log --all\n```"
    rollout = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.suspicions) == (True, {"git-all"})
    (folder,) = (tmp_path / "step-0001").iterdir()
    assert [found["rule"] for found in json.loads((folder / "meta.json").read_text())["audit"]] == ["git-all"]


async def test_episode_whose_text_cannot_be_encoded_is_no_reward(dependencies: WorkerDependencies) -> None:
    def refuse(episode: Episode) -> list[TokenSegment]:
        raise RetokenizationError(f"{len(episode.messages)} messages")

    rollout = await run(Worker(replace(dependencies, encode=refuse)), REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.error_code, rollout.error) == (False, "not_encoded", "4 messages")


@dataclass
class VotingEngine:
    """The fakes' judge, as an engine."""

    fakes: Fakes

    async def generate(self, input_ids: Sequence[int], **sampling: object) -> Generation:
        return await self.fakes.vote(input_ids, **sampling)


@pytest.fixture
def judged_worker(fakes: Fakes, dependencies: WorkerDependencies) -> Worker:
    fakes.answer = "```bash\nls\n```"
    judge = Judge(VotingEngine(fakes), CharacterTokenizer(), judge_spec(votes=3))
    return Worker(replace(dependencies, judge=judge, algorithm=AlgorithmSpec(stepwise=StepwiseSpec(judge_weight=0.5))))


async def test_judges_mean_score_is_added_with_its_weight(judged_worker: Worker, tmp_path: Path) -> None:
    rollout = await run(judged_worker, REQUEST, MEMBERS, 0, 0)
    assert rollout.step_scores == {0: pytest.approx(1 / 3)}
    assert (rollout.outcome, rollout.reward) == (1.0, pytest.approx(1.0 + 0.5 / 3))
    (folder,) = (tmp_path / "step-0001").iterdir()
    (score,) = json.loads((folder / "meta.json").read_text())["step_scores"]
    assert sorted(score["votes"]) == [-1, 1, 1]


async def test_episode_without_its_judge_gets_its_outcome(judged_worker: Worker, fakes: Fakes) -> None:
    fakes.broken_judge = True
    rollout = await run(judged_worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.reward, rollout.unscored_steps) == (True, 1.0, 1)


async def test_sandbox_is_gone_before_the_judge_is_waited_for(judged_worker: Worker, fakes: Fakes) -> None:
    await run(judged_worker, REQUEST, MEMBERS, 0, 0)
    assert fakes.events == ["declare x-g0 2", "release 0", "grade"]


async def test_held_out_episodes_are_not_judged(judged_worker: Worker, fakes: Fakes) -> None:
    await run(judged_worker, replace(REQUEST, purpose="evaluation"), MEMBERS, 0, 0)
    assert fakes.votes == 0
