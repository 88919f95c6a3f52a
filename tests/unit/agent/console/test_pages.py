"""What the pages show of jobs, evaluations and episodes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.agent.tasks.rows import jsonl, parquet, swebench

from .artifacts import (
    PATCH,
    RESOLVED,
    UNRESOLVED,
    episode,
    write_evaluation,
    write_held_out,
    write_job,
    write_rollout,
)
from .conftest import OpenConsole, shown


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "folder"


async def test_first_page_lists_jobs_and_evaluations(open_console: OpenConsole, root: Path) -> None:
    write_job(root / "demo")
    write_evaluation(root / "tests" / "before")
    page_text = shown(await (await open_console()).page("/"))
    assert "demo job 24 16 0" in page_text
    assert "tests/before evaluation 4 2 0" in page_text


async def test_folder_of_one_job_is_its_run(open_console: OpenConsole, root: Path) -> None:
    write_job(root, steps=1)
    console = await open_console()
    assert "folder job 8" in shown(await console.page("/"))
    assert "8 episodes" in shown(await console.page("/run", path=""))


async def test_shards_are_one_evaluation(open_console: OpenConsole, root: Path) -> None:
    write_evaluation(root / "eval" / "shard-0-of-2", tasks=1)
    write_evaluation(root / "eval" / "shard-1-of-2", tasks=3)
    assert "eval evaluation 8 4 0" in shown(await (await open_console()).page("/"))


async def test_job_has_curves(open_console: OpenConsole, root: Path) -> None:
    write_job(root / "demo", steps=30, groups=0)
    page = await (await open_console()).page("/run", path="demo", metric="perf/rollout_time")
    for title in ("Reward", "Resolved", "Loss", "Mismatch of trainer and engines", "Seconds of a step"):
        assert f"<strong>{title}</strong>" in page
    assert "<strong>perf/rollout_time</strong>" in page
    assert "rollout/raw_reward at step 30: 0.9901" in page
    assert not re.search(r"nan|inf\b", page)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({}, 26),
        ({"run": "demo"}, 24),
        ({"resolved": "yes"}, 16),
        ({"resolved": "lost"}, 1),
        ({"step": 2}, 8),
        ({"task": "swe-rl__store-1"}, 12),
        ({"verdict": "unresolved"}, 9),
        ({"exit_status": "max_steps"}, 1),
        ({"reward_from": 0.5}, 16),
        ({"reward_to": 0, "step": 3, "run": "demo"}, 4),
        ({"finding": "any"}, 1),
        ({"finding": "network"}, 1),
        ({"q": "STORE-1 resolved"}, 12),
        ({"q": "pod_evicted"}, 1),
        ({"q": "%"}, 0),
        ({"step": "x' or 1 --", "sort": "path; drop table episodes"}, 26),
    ],
)
async def test_filters(open_console: OpenConsole, root: Path, filters: dict[str, str | int], count: int) -> None:
    write_job(root / "demo")
    lost = episode(infrastructure_error=True, exit_status="infrastructure_error", error_code="pod_evicted", patch=None)
    write_rollout(root / "other", lost, None, 9, reward=None)
    tricky = episode(exit_status="max_steps", commands=(("curl http://example.org", ""),))
    write_rollout(root / "other", tricky, UNRESOLVED, 9)
    page = await (await open_console()).page("/episodes", **filters)
    assert f"<h1>{count} episodes</h1>" in page
    assert page.count("<tr data-item>") == count


async def test_episode_page_shows_the_whole_story(open_console: OpenConsole, root: Path) -> None:
    commands = (("ls", "cart.py\n"), ("curl -s http://example.org/fix", ""), ("pytest -q", "1 failed\n"))
    folder = write_rollout(root / "demo", episode(commands=commands), RESOLVED, 1)
    console = await open_console()
    page = await console.page("/episode", path=console.path(folder))
    page_text = shown(page)
    assert "resolved reward 1 ended by submitted 3 turns" in page_text
    assert "FAIL_TO_PASS 1/1 PASS_TO_PASS 3/3 contrast held" in page_text
    assert "turn 2 network uses the network: curl -s http://example.org/fix" in page_text
    assert "Thought, 2 lines I look at the problem again." in page_text
    assert "THOUGHT: the total ignores quantities." in page_text
    assert '<pre class="command">pytest -q</pre>' in page
    assert "1 failed" in page_text
    assert "exit 0 0.4 s" in page_text
    assert "judge 0.5 votes 1, –, 1" in page_text
    cut = page_text.index("The context was cut here: 1 earlier turn is missing from here on")
    assert page_text.index("Turn 2") < cut < page_text.index("Turn 3")
    assert "sequence 1: 40 trained of 90" in page_text
    assert '<tr class="add"><td class="n"></td><td class="n">11</td><td>+        # quantities' in page
    assert "test_cart.py::test_total" not in page  # ground truth


async def test_reason_of_an_open_verdict_is_shown(open_console: OpenConsole, root: Path) -> None:
    folder = write_rollout(root / "demo", episode(), UNRESOLVED, 1)
    console = await open_console()
    page_text = shown(await console.page("/episode", path=console.path(folder)))
    assert "contrast unavailable" in page_text and "no test of the task can be altered" in page_text


async def test_raw_texts(open_console: OpenConsole, root: Path) -> None:
    folder = write_rollout(root / "demo", episode(), RESOLVED, 1)
    console = await open_console()
    answer = await console.get("/text", path=console.path(folder))
    assert answer.content_type == "text/plain" and await answer.text() == PATCH
    assert "store/cart.py:11" in await console.page("/text", path=console.path(folder), message=3)
    assert (await console.get("/text", path=console.path(folder), message=99)).status == 404


async def test_tokens_have_log_probs_and_mask(open_console: OpenConsole, root: Path) -> None:
    folder = write_rollout(root / "demo", episode(), RESOLVED, 1)
    console = await open_console()
    page = await console.page("/tokens", path=console.path(folder))
    assert 'class="token" title="39: id 139">139<' in page
    assert 'class="token trained l0" title="41: id 41, log-prob -0.2000, trained">41<' in page
    assert 'class="token trained l4" title="59: id 59, log-prob -3.8000, trained">59<' in page
    assert (await console.get("/tokens", path=console.path(folder), sequence=7)).status == 404


async def test_rollouts_of_a_prompt_stand_side_by_side(open_console: OpenConsole, root: Path) -> None:
    write_job(root / "demo", steps=2, groups=2, size=8)
    one = next((root / "demo/artifacts/step-0002").iterdir())
    console = await open_console()
    page = await console.page("/rollouts", path=console.path(one))
    assert [f"Rollout {index}" in page for index in range(9)] == [True] * 8 + [False]
    assert page.count("grep -rn total store") == 8 and page.count("quantities count, too") == 8
    assert "8 rollouts side by side" in await console.page("/episode", path=console.path(one))


async def test_samples_of_a_task_stand_side_by_side(open_console: OpenConsole, root: Path) -> None:
    write_evaluation(root / "eval", tasks=2, samples=3)
    one = next((root / "eval").glob("swe-rl__store-1__*"))
    console = await open_console()
    assert (await console.page("/rollouts", path=console.path(one))).count("<section") == 3


async def test_evaluations_are_compared_task_by_task(open_console: OpenConsole, root: Path) -> None:
    write_evaluation(root / "before", tasks=2, samples=2, solved=0)
    write_evaluation(root / "after", tasks=3, samples=2, solved=1)
    page_text = shown(await (await open_console()).page("/compare", a="before", b="after"))
    interval = "95 % interval -59.9 to +100.0 (may be chance)"
    assert f"2 tasks in both mean change of the resolve rate +50.0 points, {interval} 2 better 0 worse" in page_text
    assert "swe-rl__store-0 0/2 1/2 +50" in page_text and "swe-rl__store-2 0/0 1/2 –" in page_text


async def test_jobs_are_compared_by_their_newest_held_out_evaluation(open_console: OpenConsole, root: Path) -> None:
    for job, solved in (("one", 1), ("other", 3)):
        write_job(root / job, steps=1, groups=2, size=2)
        write_held_out(root / job, 10, tasks=4, solved=4 - solved)
        write_held_out(root / job, 20, tasks=4, solved=solved)
    page_text = shown(await (await open_console()).page("/compare", a="one", b="other"))
    assert "4 tasks in both mean change of the resolve rate +50.0 points" in page_text
    assert "2 better 0 worse" in page_text and "swe-rl__store-1 0/1 1/1 +100" in page_text


@pytest.mark.parametrize(
    ("name", "shown_from"), [("t.jsonl", "t.jsonl"), ("t.parquet", "t.parquet"), ("t.parquet", "")]
)
async def test_ground_truth_needs_to_be_asked_for(
    open_console: OpenConsole, root: Path, tmp_path: Path, name: str, shown_from: str
) -> None:
    (tmp_path / "tasks").mkdir()
    (jsonl if name == "t.jsonl" else parquet)(tmp_path / "tasks" / name, swebench("django__django-13820"))
    folder = write_rollout(root / "demo", episode("django__django-13820"), RESOLVED, 1)
    console = await open_console()
    assert "Ground truth" not in await console.page("/episode", path=console.path(folder))
    console = await open_console(gold=tmp_path / "tasks" / shown_from)
    page_text = shown(await console.page("/episode", path=console.path(folder)))
    assert "Ground truth Reference fix" in page_text and "FAIL_TO_PASS: " in page_text


async def test_log_and_tests_of_a_grading_need_to_be_asked_for(open_console: OpenConsole, root: Path) -> None:
    folder = write_rollout(root / "demo", episode(), replace(UNRESOLVED, log="E   assert 7 == 9\n"), 1)
    older = write_rollout(root / "demo", episode(index=1), RESOLVED, 1)
    console = await open_console()
    page = await console.page("/episode", path=console.path(folder))
    assert "test_total" not in page and "assert 7 == 9" not in page and "No log of this grading" not in page
    assert (await console.get("/grading", path=console.path(folder))).status == 403
    console = await open_console(gradings=True)
    words = shown(await console.page("/episode", path=console.path(folder)))
    assert "tests/test_cart.py::test_total FAIL_TO_PASS failed" in words and "assert 7 == 9" in words
    assert "tests/test_cart.py::test_clear PASS_TO_PASS passed" in words
    answer = await console.get("/grading", path=console.path(folder))
    assert (answer.content_type, await answer.text()) == ("text/plain", "E   assert 7 == 9\n")
    assert "No log of this grading is kept" in await console.page("/episode", path=console.path(older))
    assert (await console.get("/grading", path=console.path(older))).status == 404


async def test_unknown_places_are_not_found(open_console: OpenConsole, root: Path) -> None:
    write_job(root / "demo", steps=1, groups=1, size=1)
    (root.parent / "secret").mkdir()
    (root.parent / "secret" / "traj.json").write_text("{}")
    console = await open_console()
    for page in ("/episode", "/text", "/rollouts", "/tokens"):
        assert (await console.get(page, path="../secret")).status == 404
    assert (await console.get("/run", path="nowhere")).status == 404
    assert (await console.get("/assets/..%2Fapp.py")).status == 404
