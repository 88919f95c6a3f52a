"""What an episode leaves on disk, however it ended."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import EngineError, Generation
from swerl_agent.episode.live import remove_live_file
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.worker import Worker

from tests.full_disk import files_end_at

from .conftest import MEMBERS, REQUEST, Fakes, builtin, run


async def failed(error: Exception) -> Generation:
    raise error


async def test_every_episode_leaves_its_artifacts(worker: Worker, tmp_path: Path) -> None:
    await run(worker, REQUEST, MEMBERS, 0, 0)
    (folder,) = (tmp_path / "step-0001").iterdir()
    assert {path.name for path in folder.iterdir()} == {"traj.json", "patch.diff", "meta.json"}


async def test_running_episode_has_a_live_file(
    worker: Worker, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    generate = fakes.generate

    async def looking(input_ids: list[int], **sampling: Any) -> Generation:
        remove_live_file(tmp_path / "other")  # after everything that was reported
        names.extend(path.name for path in (tmp_path / "step-0001").iterdir())
        return await generate(input_ids, **sampling)

    monkeypatch.setattr(fakes, "generate", looking)
    await run(worker, REQUEST, MEMBERS, 0, 0)
    assert names[0].endswith("__i0__live.jsonl")
    assert not [path for path in (tmp_path / "step-0001").iterdir() if path.is_file()]


async def test_artifacts_have_the_keys_of_other_readers(dependencies: WorkerDependencies, tmp_path: Path) -> None:
    named = replace(dependencies, sampling={"top_p": 0.9, "top_k": 20}, model="kit/tiny")
    await run(Worker(named), REQUEST, MEMBERS, 1, 0)
    (folder,) = (tmp_path / "step-0001").iterdir()
    info = json.loads((folder / "traj.json").read_text())["info"]
    assert info["sampling_params"] == {"temperature": 1.0, "top_p": 0.9, "top_k": 20}
    assert (info["reward"], info["group_index"], info["index"], info["model"]) == (1.0, "g0", 1, "kit/tiny")
    assert info["eval_result"] == info["verdict"] and info["verdict"]["status"] == "resolved"


@pytest.mark.parametrize("error", [EngineError("no answer"), RuntimeError("surprise")])
async def test_episode_that_failed_leaves_its_artifacts_too(
    worker: Worker, fakes: Fakes, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fakes, "generate", lambda input_ids, **sampling: failed(error))
    assert not (await run(worker, REQUEST, MEMBERS, 0, 0)).valid
    (folder,) = (tmp_path / "step-0001").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["error"] == f"{type(error).__name__}: {error}"
    assert not meta["valid"]


async def test_episode_with_a_failed_prompt_gives_no_reward_and_leaves_artifacts(
    dependencies: WorkerDependencies, tmp_path: Path
) -> None:
    agent = builtin(dependencies.agent.engine)  # type: ignore[attr-defined]
    prompts = replace(agent.prompts, format_error_template="{{ x }}")
    worker = Worker(replace(dependencies, agent=replace(agent, prompts=prompts)))
    rollout = await run(worker, REQUEST, MEMBERS, 0, 0)
    assert (rollout.valid, rollout.exit_status, rollout.error_code) == (False, "prompt_failed", "prompt_failed")
    assert "agent.format_error_template does not render" in rollout.error
    (folder,) = (tmp_path / "step-0001").iterdir()
    trajectory = json.loads((folder / "traj.json").read_text())
    assert [message["content"] for message in trajectory["messages"]] == ["s", "fix it", "A"]
    assert (trajectory["info"]["error"], trajectory["info"]["valid"]) == (rollout.error, False)


async def test_episode_that_ran_out_of_time_leaves_its_artifacts_too(
    dependencies: WorkerDependencies, fakes: Fakes, tmp_path: Path
) -> None:
    fakes.generation_gate = asyncio.Event()
    rollout = await run(
        Worker(replace(dependencies, agent=builtin(fakes, episode_timeout_seconds=0.1))), REQUEST, MEMBERS, 0, 0
    )
    assert (rollout.exit_status, rollout.valid, rollout.reward) == ("episode_timeout", True, -1.0)
    (folder,) = (tmp_path / "step-0001").iterdir()
    info = json.loads((folder / "traj.json").read_text())["info"]
    assert info["exit_status"] == "episode_timeout"
    assert (info["verdict"]["detail"], info["verdict"]["audit"]) == ("no patch", [])


async def test_full_disk_loses_only_the_artifacts(
    worker: Worker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await run(worker, REQUEST, MEMBERS, 0, 0)
    contents_before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with files_end_at(16):
        rollout = await run(worker, REQUEST, MEMBERS, 1, 0)
    assert (rollout.valid, rollout.resolved, len(rollout.segments)) == (True, True, 1)
    (message,) = [record.getMessage() for record in caplog.records if "artifacts" in record.getMessage()]
    assert message.startswith("cannot write the artifacts of g0/1: ") and "File too large" in message
    assert len(message.splitlines()) == 1
    assert {path: path.read_bytes() for path in contents_before} == contents_before


async def test_discarded_group_stops(worker: Worker, fakes: Fakes, tmp_path: Path) -> None:
    fakes.generation_gate = asyncio.Event()
    running = [asyncio.create_task(run(worker, REQUEST, MEMBERS, index, 0)) for index in MEMBERS]
    await asyncio.sleep(0.05)
    await worker.discard(REQUEST)
    rollouts = await asyncio.gather(*running)
    assert [(rollout.valid, rollout.error_code) for rollout in rollouts] == [(False, "discarded")] * 2
    assert fakes.events.count("delete") == 1
    traces = [json.loads(path.read_text())["info"] for path in tmp_path.glob("step-0001/*/traj.json")]
    assert [trace["exit_status"] for trace in traces] == ["cancelled"] * 2


async def test_episode_with_an_abandoned_verdict_leaves_its_artifacts(
    worker: Worker, fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fakes, "grade", lambda task, patch, image: asyncio.sleep(60))
    running = asyncio.create_task(run(worker, REQUEST, MEMBERS, 0, 0))
    while "release 0" not in fakes.events:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.01)
    await worker.discard(REQUEST)
    assert not (await running).valid
    (folder,) = (tmp_path / "step-0001").iterdir()
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["exit_status"], meta["verdict"], meta["valid"]) == ("max_steps", None, False)
