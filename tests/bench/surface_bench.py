"""What people wait for: the console's first byte, the size of its pages, a search, the start of `swerl`, a redraw.

The console is `swerl view` as a process, whose index follows the folder meanwhile. Each figure is the median of several
runs, of pages and searches the slowest one's.

    make bench-surface
"""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import aiohttp
from rich.console import Console
from swerl_agent.console import EpisodeIndex
from swerl_agent.jobs.view import JobView

from tests.bench.figures import QUICK, Figure, conclude
from tests.unit.agent.console.artifacts import write_evaluation, write_many
from tests.unit.agent.console.test_live import NAME, report, start
from tests.unit.agent.jobs.test_view import groups, reading

RUNS = 5 if QUICK else 15
EPISODES, MANY = 10_000, 100_000
FIRST_BYTE_MS, PAGE_KB, START_MS, REDRAW_MS = 200.0, 500.0, 300.0, 50.0
SEARCH_MS, INDEX_S = 500.0, 120.0  # of ten times as many episodes
BENCH_S = 300.0  # all of it
RUNNING, TURNS = "demo/artifacts/step-0002", 100  # an episode that runs
PODS_OF_A_GROUP, PODS = 8, 1_000
Page = tuple[str, dict[str, str]]


def pages(episode: str) -> list[Page]:
    """A page of each kind."""
    return [
        ("", {}),
        ("run", {"path": "demo"}),
        ("episodes", {}),
        *(("episode", {"path": episode}), ("rollouts", {"path": episode}), ("tokens", {"path": episode})),
        ("compare", {"a": "demo", "b": "after"}),
        ("live", {"path": f"{RUNNING}/{NAME}"}),
    ]


SEARCHES: list[Page] = [
    ("episodes", {"q": "store-7"}),
    ("episodes", {"q": "found nowhere"}),
    ("episodes", {"run": "demo", "resolved": "no", "q": "store", "sort": "reward", "page": "20"}),
    ("episodes", {"verdict": "resolved", "turns_from": "2", "sort": "turns"}),
]


async def console_figures(home: Path) -> list[Figure]:
    """Pages of ten thousand episodes, searches over a hundred thousand, and the time to index those."""
    path = write_many(home / "ten/demo", EPISODES)
    write_evaluation(home / "ten/after", tasks=50)
    turns = [(f"echo {number}", "x" * 5_000) for number in range(TURNS)]
    report(start(home / "ten" / RUNNING), "model", turns)
    _index(home / "ten", home / "ten.sqlite")
    async with console(home / "ten", home / "ten.sqlite") as address:
        measured = [await measure(address, page) for page in pages(str(path.relative_to(home / "ten")))]
    write_many(home / "hundred/demo", MANY)
    seconds = _index(home / "hundred", home / "hundred.sqlite")
    async with console(home / "hundred", home / "hundred.sqlite") as address:
        searched = [await measure(address, page) for page in SEARCHES]
    return [
        Figure("console_first_byte_10000_episodes_ms", max(time for time, _ in measured), FIRST_BYTE_MS),
        Figure("console_page_kb", max(size for _, size in measured + searched), PAGE_KB),
        Figure("console_search_100000_episodes_ms", max(time for time, _ in searched), SEARCH_MS),
        Figure("console_index_100000_episodes_s", seconds, INDEX_S),
    ]


def _index(root: Path, path: Path) -> float:
    """Seconds to build the index."""
    started = time.perf_counter()
    EpisodeIndex(root, path).scan()
    return time.perf_counter() - started


@asynccontextmanager
async def console(root: Path, index: Path) -> AsyncIterator[str]:
    """The address of a console over `root`."""
    words = [sys.executable, "-m", "swerl_agent.cli", "view", str(root), "--port", "0", "--index", str(index)]
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"swerl view did not start: {line!r}")
        yield found[0]
    finally:
        process.terminate()
        await process.wait()


async def measure(address: str, page: Page) -> tuple[float, float]:
    """Milliseconds to the first byte, and kilobytes."""
    name, values = page
    times, size = list[float](), 0.0
    async with aiohttp.ClientSession() as http:
        for _ in range(RUNS):
            started = time.perf_counter()
            async with http.get(f"{address}{name}", params=values) as answer:
                times.append(time.perf_counter() - started)
                size = len(await answer.read()) / 1e3
                if answer.status != 200:
                    raise RuntimeError(f"{address}{name} {values}: status {answer.status}")
    return median(times) * 1e3, size


def start_ms(*arguments: str) -> float:
    """Milliseconds from the start of `swerl` to its end."""
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "swerl_agent.cli", *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return median(times) * 1e3


def redraw_ms() -> float:
    """Milliseconds of a redraw of `swerl watch` with a thousand sandboxes."""
    view, screen = JobView("q"), Console(file=io.StringIO(), force_terminal=True, width=120)
    crowd = groups(PODS // PODS_OF_A_GROUP)
    times = []
    for step in range(1, RUNS + 1):
        started = time.perf_counter()
        view.observe(reading(step), crowd)
        screen.print(view.panel())
        times.append(time.perf_counter() - started)
    return median(times) * 1e3


def figures() -> Sequence[Figure]:
    """Every figure; the last is how long the others took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="swerl-surface-") as home:
        found = asyncio.run(console_figures(Path(home)))
    found += [
        Figure("swerl_start_ms", start_ms("--help"), START_MS),
        Figure("watch_redraw_ms", redraw_ms(), REDRAW_MS),
    ]
    return [*found, Figure("surface_bench_s", time.monotonic() - begun, BENCH_S)]


if __name__ == "__main__":
    sys.exit(conclude(figures()))
