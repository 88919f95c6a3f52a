"""Pages of a folder with ten thousand episodes: processor time to the first byte, and size."""

from __future__ import annotations

import time
from pathlib import Path

from swerl_trainer.metrics.sinks import JsonlSink

from .artifacts import RESOLVED, UNRESOLVED, episode, metrics, write_rollout
from .conftest import OpenConsole

EPISODES = 10_000
FIRST_BYTE = 0.2  # seconds


def write_many(job: Path) -> Path:
    """Two real folders, linked ten thousand times under the names of steps, groups and members; one of them."""
    sources = [write_rollout(job / "made", episode(), verdict, 1) for verdict in (RESOLVED, UNRESOLVED)]
    for number in range(EPISODES):
        step, group, member = number // 64, number // 8, number % 8
        name = f"swe-rl__store-{group % 50}__gg{group}__i{member}__{1_790_000_000_000_000_000 + number}"
        folder = job / f"artifacts/step-{step:04d}" / name
        folder.mkdir(parents=True)
        for file in sources[number % 2].iterdir():
            (folder / file.name).hardlink_to(file)
    sink = JsonlSink(job / "metrics.jsonl", attempt=1, keep={})
    sink.write("step", 1, metrics(1))
    return folder


async def test_first_byte_of_ten_thousand_episodes(open_console: OpenConsole, tmp_path: Path) -> None:
    many_rollouts = write_many(tmp_path / "folder" / "demo")
    console = await open_console()
    path = console.path(many_rollouts)
    pages: list[tuple[str, dict[str, str | int]]] = [
        ("/", {}),
        ("/run", {"path": "demo"}),
        ("/episodes", {}),
        ("/episodes", {"run": "demo", "resolved": "no", "q": "store", "sort": "reward", "page": 20}),
        ("/episode", {"path": path}),
        ("/rollouts", {"path": path}),
        ("/tokens", {"path": path}),
    ]
    for page, values in pages:
        times = []
        for _ in range(5):
            started = time.monotonic()
            answer = await console.get(page, **values)
            times.append(time.monotonic() - started)
            assert answer.status == 200 and len(await answer.read()) < 500_000
        assert min(times) < FIRST_BYTE, f"{page} {values}: {times}"
