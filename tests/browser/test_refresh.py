"""Pages that bring themselves up to date: a job's curves and lists, and an episode that runs until it has ended."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from swerl_agent.episode.live import LiveFile
from swerl_trainer.metrics.sinks import JsonlSink

from tests.unit.agent.console.artifacts import RESOLVED, episode, metrics, write_rollout
from tests.unit.agent.console.test_live import NAME, report

from .conftest import served, watched

STEP = "demo/artifacts/step-0002"
ABOUT = {"instance_id": "swe-rl__store-4", "group": "g1", "index": 0, "agent_name": "builtin"}
FIRST, SECOND = ("grep -rn total store", "store/cart.py:11"), ("pytest -q", "3 passed")


def open_run(page: Page, wanted: str) -> None:
    """Open the page of the job once the index has it, with the text `wanted`."""
    for path, text in (("/", "demo"), ("/run?path=demo", wanted)):
        for _ in range(100):
            page.goto(path)
            if page.get_by_text(text).count():
                break
            page.wait_for_timeout(200)


def mark(page: Page) -> None:
    """Leave a mark that the next load of a page removes."""
    page.evaluate("window.loadedOnce = true")


def assert_loaded_once(page: Page) -> None:
    assert page.evaluate("window.loadedOnce") is True, "the page was loaded again"


def test_job_grows_on_the_open_page(browser: Browser, tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "demo/metrics.jsonl", attempt=1, keep={})
    write_rollout(tmp_path / "demo", episode(), RESOLVED, 1)
    for step in (1, 2):
        sink.write("step", step, metrics(step))
    with served(tmp_path) as address, watched(browser, address) as page:
        open_run(page, "step 2, attempt 1")
        mark(page)
        page.locator("details").last.evaluate("each => each.open = true")
        loss = page.get_by_role("img", name="Loss").first
        points = loss.locator("circle").count()
        sink.write("step", 3, metrics(3))
        report(LiveFile(tmp_path / STEP / NAME, ABOUT), "environment", [FIRST])
        expect(page.get_by_text("step 3, attempt 1")).to_be_visible(timeout=60_000)
        expect(loss.locator("circle")).to_have_count(points // 2 * 3)
        expect(page.get_by_role("heading", name="Running episodes")).to_be_visible(timeout=60_000)
        assert page.locator("details[open]").count() == 1, "what was unfolded stays so"
        assert_loaded_once(page)


def test_running_episode_grows_and_leads_to_the_ended_one(browser: Browser, tmp_path: Path) -> None:
    write_rollout(tmp_path / "demo", episode("swe-rl__store-1"), RESOLVED, 1)
    live = LiveFile(tmp_path / STEP / NAME, ABOUT)
    report(live, "environment", [FIRST])
    with served(tmp_path) as address, watched(browser, address) as page:
        open_run(page, "Running episodes")
        page.locator("a[href^='/live']").first.click()
        expect(page.get_by_text(FIRST[0])).to_be_visible()
        mark(page)
        report(live, "model", [FIRST, SECOND])
        expect(page.get_by_text(SECOND[1])).to_be_visible(timeout=60_000)
        expect(page.get_by_role("status")).to_contain_text("waits for the model")
        assert_loaded_once(page)
        written = write_rollout(tmp_path / "demo", episode("swe-rl__store-4", "g1"), RESOLVED, 2)
        page.wait_for_url("**/episode?**", timeout=60_000)
        assert written.name in page.url
