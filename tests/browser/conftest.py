"""A console of a job and two evaluations, served by the real command, and a headless Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, ViewportSize, sync_playwright
from swerl_agent.episode.live import LiveFile

from tests.unit.agent.console.artifacts import PATCH, UNRESOLVED, episode, write_evaluation, write_job, write_rollout
from tests.unit.agent.console.test_live import NAME, report

SECONDS = 60_000.0  # milliseconds for one action
ATTACK = "</pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\x1b[31m"
MISSING = "/missing"  # path of a page that does not exist
REFUSED_PAGES = (MISSING, "/login", "/refused", "/favicon.ico")  # that are answered with an error status
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]  # tests run as root in containers


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where `swerl view` serves its pages."""
    root = tmp_path_factory.mktemp("folder")
    write_job(root / "demo", steps=3, groups=2, size=4)
    counts = {"by_node": {"node-1": {"ready": 3, "starting": 1}}, "without_node": {"waiting": 2}}
    (root / "demo" / "sandboxes.json").write_text(json.dumps({"time": time.time() + 30, **counts}))
    hostile = episode(commands=((f"echo {ATTACK}", ATTACK), ("ls", "a\n" * 300)), patch=PATCH.replace("cart", ATTACK))
    tests = {"FAIL_TO_PASS": {"success": [], "failure": [ATTACK]}, "PASS_TO_PASS": {"success": ["t"], "failure": []}}
    verdict = replace(UNRESOLVED, report={"tests_status": tests}, log=f"{ATTACK}\n" * 80)
    write_rollout(root / "hostile", hostile, verdict, 1)
    write_live(root / "demo/artifacts/step-0002")
    write_evaluation(root / "before", solved=0)
    write_evaluation(root / "after", solved=1)
    with served(root, "--show-gradings") as found:
        yield found


@contextmanager
def served(root: Path, *options: str, **environment: str) -> Iterator[str]:
    """The address of `swerl view` over `root`."""
    own = {"PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-m", "swerl_agent.cli", "view", str(root), "--port", "0", *options]
    with subprocess.Popen(command, env=os.environ | own, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        try:
            yield found[0].rstrip("/")
        finally:
            process.terminate()


def write_live(folder: Path) -> None:
    """An episode that runs: one command has its output, another runs."""
    about = {"instance_id": "swe-rl__store-4", "group": "g1", "index": 0, "agent_name": "builtin"}
    report(LiveFile(folder / NAME, about), "environment", [("grep -rn total store", "found"), ("pytest -q", "")])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "install Debian's package chromium, as `make test-browser` does"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of the console that opens without a token."""
    with watched(browser, address) as opened:
        wait_for_index(opened)
        yield opened


@contextmanager
def watched(browser: Browser, address: str, headers: Mapping[str, str] | None = None) -> Iterator[Page]:
    """A page that fails the test on an error of its scripts, a refused resource or a request to another host.

    `headers`: those that a proxy adds to each request.
    """
    size = ViewportSize(width=1280, height=900)
    context = browser.new_context(base_url=address, viewport=size, extra_http_headers=dict(headers or {}))
    context.set_default_timeout(SECONDS)
    opened, faults = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if is_fault(message) else None)
    opened.on("request", lambda request: None if request.url.startswith(f"{address}/") else faults.append(request.url))
    yield opened
    context.close()
    assert faults == []


def is_fault(message: ConsoleMessage) -> bool:
    """Whether Chromium reports another error than the status of a page that a test knows to be refused or missing."""
    return message.type == "error" and not message.location["url"].endswith(REFUSED_PAGES)


def wait_for_index(page: Page) -> None:
    """Open the first page until it lists every run."""
    for _ in range(100):
        page.goto("/")
        if all(page.get_by_role("link", name=name, exact=True).count() for name in ("demo", "before", "after")):
            return
        page.wait_for_timeout(200)
    raise AssertionError(page.inner_text("main"))


def folder_of_screenshots() -> Path | None:
    """Where pictures of the pages go, for people who look at them: $SWERL_SCREENSHOTS."""
    named = os.environ.get("SWERL_SCREENSHOTS")
    return Path(named) if named else None
