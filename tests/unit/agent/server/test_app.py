"""What a trainer gets of the agent server, whatever happens to its rollout."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from swerl_agent.episode import Episode, GradedEpisode
from swerl_agent.grading import GradingError, Verdict
from swerl_agent.sandbox import ImagePullFailed
from swerl_kube import Unreachable

from .conftest import FAILED, SOLVED, FakeRunner, Serving, episode

LOST = GradedEpisode(episode(), Verdict("infra_error", detail="node lost"))
RESULT = Path("results", "gym", "org_m", "getmoto__moto-5876", "getmoto__moto-5876.json")


async def test_rollout_is_answered_with_its_reward(serving: Serving, runner: FakeRunner) -> None:
    async with serving() as client:
        status, answer = await client.run()
        runner.outcome = FAILED
        _, second = await client.run()
        runner.outcome = GradedEpisode(episode(patch=None, patch_source=None, exit_status="max_steps"))
        _, third = await client.run()
    assert status == 200
    assert [response["reward"] for response in (answer, second, third)] == [1, 0, 0]
    assert (answer["instance_id"], answer["info"]["exit_status"]) == ("getmoto__moto-5876", "Submitted")
    assert answer["metadata"]["eval_report"]["getmoto__moto-5876"]["resolved"] is True
    assert answer["info"]["agent_metrics"]["eval_time"] == 4.0
    assert (third["info"]["exit_status"], third["info"]["verdict"]) == ("LimitsExceeded", None)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (ImagePullFailed("no such image"), "ImagePullFailed: no such image"),
        (Unreachable("connection refused"), "Unreachable: connection refused"),
        (GradingError("no permission"), "GradingError: no permission"),
        (
            GradedEpisode(
                episode(infrastructure_error=True, error="EngineError: no answer", exit_status="x", patch=None)
            ),
            "EngineError: no answer",
        ),
        (GradedEpisode(episode(), Verdict("infra_error", detail="node lost")), "node lost"),
    ],
)
async def test_failure_of_the_infrastructure_is_never_a_reward(
    serving: Serving, runner: FakeRunner, outcome: GradedEpisode | Exception, message: str, tmp_path: Path
) -> None:
    runner.outcome = outcome
    async with serving() as client:
        status, answer = await client.run()
        metrics = (await client.get("/metrics"))[1]
    assert (status, answer) == (503, {"error": message, "info": {"exit_status": "infrastructure_error"}})
    assert 'swerl_server_runs_total{exit_status="infrastructure_error"} 1.0' in metrics
    assert not (tmp_path / RESULT).exists()


async def test_server_error_is_reported_as_one(serving: Serving, runner: FakeRunner) -> None:
    runner.outcome = ZeroDivisionError("oh")
    async with serving() as client:
        assert await client.run() == (500, {"error": "ZeroDivisionError: oh", "info": {"exit_status": "error"}})


async def test_prompts_that_do_not_render_are_reported(serving: Serving, runner: FakeRunner) -> None:
    text = "agent.system_template does not render: ZeroDivisionError, in line 1"
    runner.outcome = GradedEpisode(Episode("i", "g", 0, exit_status="prompt_failed", error=text))
    async with serving() as client:
        assert await client.run() == (500, {"error": text, "info": {"exit_status": "prompt_failed"}})
        assert 'exit_status="prompt_failed"} 1.0' in (await client.get("/metrics"))[1]


async def test_invalid_request_is_refused_before_it_is_queued(serving: Serving, runner: FakeRunner) -> None:
    async with serving() as client:
        status, answer = await client.run(base_commit=None)
        assert (status, answer["error"]) == (400, "the request: field base_commit is missing")
        status, answer = await client.post(b"nonsense")
        assert status == 400 and "not JSON" in answer["error"]
    assert runner.requests == []


async def test_requests_above_the_limit_wait_in_order(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving(concurrency=2) as client:
        requests = [asyncio.create_task(client.run()) for _ in range(5)]
        await runner.started.get()
        await runner.started.get()
        await asyncio.sleep(0.2)
        metrics = (await client.get("/metrics"))[1]
        runner.go.set()
        assert [status for status, _ in await asyncio.gather(*requests)] == [200] * 5
        metrics_after = (await client.get("/metrics"))[1]
    assert runner.most == 2
    assert "swerl_server_in_flight 2.0" in metrics and "swerl_server_waiting 3.0" in metrics
    assert "swerl_server_in_flight 0.0" in metrics_after and "swerl_server_waiting 0.0" in metrics_after
    assert 'swerl_server_runs_total{exit_status="submitted"} 5.0' in metrics_after
    assert "swerl_server_run_seconds_count 5.0" in metrics_after


def written_folders(folder: Path) -> list[dict[str, Any]]:
    """What the artifacts of episodes without an answer say."""
    answer_folder = (folder / RESULT).parent
    return [
        json.loads(path.read_text())
        for path in answer_folder.glob("*/meta.json")
        if (path.parent / "traj.json").exists()
    ]


@pytest.mark.parametrize("outcome", [GradingError("no permission"), ZeroDivisionError("oh"), LOST, SOLVED])
async def test_episode_is_kept_when_its_client_gets_no_answer(
    serving: Serving, runner: FakeRunner, tmp_path: Path, outcome: GradedEpisode | Exception
) -> None:
    runner.outcome = outcome
    async with serving() as client:
        status, _ = await client.run()
    assert (status == 200, (tmp_path / RESULT).exists()) == (outcome is SOLVED, outcome is SOLVED)
    kept = written_folders(tmp_path)
    assert [meta["instance_id"] for meta in kept] == ([] if outcome is SOLVED else ["getmoto__moto-5876"])
    for meta in kept:
        assert (meta["model"], meta["api_base"], meta["verdict"]) == ("org/m", "http://127.0.0.1:9", None)
        assert meta["sampling_params"] == {"temperature": 0.8, "top_p": 1.0, "top_k": -1, "max_new_tokens": 512}


async def test_artifacts_of_a_cancelled_rollout_are_kept(serving: Serving, runner: FakeRunner, tmp_path: Path) -> None:
    runner.go.clear()
    async with serving(grace=0.1) as client:
        request_ = asyncio.create_task(client.run())
        await runner.started.get()
        client.stop.set()
        assert (await request_)[0] == 503
    assert len(written_folders(tmp_path)) == 1


async def test_rollout_ends_when_its_client_disconnects(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving(concurrency=1) as client:
        running, waiting = (asyncio.create_task(client.run()) for _ in range(2))
        await runner.started.get()
        waiting.cancel()
        running.cancel()
        await runner.cancelled.get()
        runner.go.set()
        assert (await client.run())[0] == 200
        assert 'exit_status="cancelled"} 1.0' in (await client.get("/metrics"))[1]
    assert len(runner.requests) == 2, "who went away in line was never begun"


async def test_rollout_may_end_while_the_server_stops(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving() as client:
        request_ = asyncio.create_task(client.run())
        await runner.started.get()
        client.stop.set()
        await asyncio.sleep(0.1)
        runner.go.set()
        assert (await request_)[0] == 200
    assert runner.cancelled.empty()


async def test_late_rollout_is_cancelled_and_reported(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving(grace=0.1) as client:
        request_ = asyncio.create_task(client.run())
        await runner.started.get()
        client.stop.set()
        status, answer = await request_
    assert (status, answer["info"]["exit_status"]) == (503, "cancelled")
    assert runner.cancelled.qsize() == 1


async def test_stop_lets_a_rollout_clean_up(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving(grace=0.05) as client:
        request_ = asyncio.create_task(client.run())
        await runner.started.get()
        request_.cancel()
        await asyncio.sleep(0.1)
    assert runner.cancelled.qsize() == 1


async def test_stopping_server_accepts_no_request(serving: Serving, runner: FakeRunner) -> None:
    runner.go.clear()
    async with serving() as client:
        request_ = asyncio.create_task(client.run())
        await runner.started.get()
        assert (await client.get("/health"))[0] == 200  # its connection is kept
        client.stop.set()
        await asyncio.sleep(0.1)
        assert await client.get("/health") == (503, '{"status": "stopping"}')
        status, answer = await client.run()
        assert (status, answer["error"]) == (503, "the server is stopping; ask another one")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"{client.url}/health")
        runner.go.set()
        assert (await request_)[0] == 200


async def test_stored_answer_is_reused_on_request(serving: Serving, runner: FakeRunner, tmp_path: Path) -> None:
    async with serving() as client:
        _, first = await client.run()
        runner.outcome = FAILED
        _, second = await client.run()
    assert json.loads((tmp_path / RESULT).read_text()) == second != first
    runner.outcome = SOLVED
    async with serving(skip_if_exists=True) as client:
        assert await client.run() == (200, second)
        _, other_answer = await client.run(subset="other", image="i")
    assert other_answer["reward"] == 1
    assert len(runner.requests) == 3


async def test_unreadable_result_is_repeated(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / RESULT).parent.mkdir(parents=True)
    (tmp_path / RESULT).write_text('{"rew')
    async with serving(skip_if_exists=True) as client:
        assert (await client.run())[1]["reward"] == 1
    assert json.loads((tmp_path / RESULT).read_text())["reward"] == 1


async def test_answer_is_sent_after_a_disk_error(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "results").write_text("")
    async with serving() as client:
        assert (await client.run())[0] == 200
    assert "answered but not kept" in caplog.text


@pytest.mark.parametrize("name", ["..", "../../escape", "/etc/cron.d/x"])
async def test_id_that_cannot_name_a_folder_is_refused(serving: Serving, tmp_path: Path, name: str) -> None:
    async with serving() as client:
        status, answer = await client.run(instance_id=name)
    assert (status, [path for path in tmp_path.rglob("*") if path.is_file()]) == (400, [])
    assert f"instance_id {name!r}" in str(answer)


@pytest.mark.parametrize("name", ["..", "../../escape", "/etc/cron.d/x"])
async def test_no_subset_name_resolves_outside_the_results(serving: Serving, tmp_path: Path, name: str) -> None:
    async with serving() as client:
        assert (await client.run(subset=name, image="i"))[0] == 200
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 1
    assert len(written[0].relative_to(tmp_path / "results").parts) == 4
