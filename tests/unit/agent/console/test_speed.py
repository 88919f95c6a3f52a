"""Pages of a folder with ten thousand episodes: processor time of an answer, and size."""

from __future__ import annotations

import time
from pathlib import Path

from .artifacts import write_evaluation, write_many
from .conftest import OpenConsole
from .test_live import NAME, report, start

EPISODES = 10_000
FIRST_BYTE = 0.2  # processor seconds of server and client


async def test_first_byte_of_ten_thousand_episodes(open_console: OpenConsole, tmp_path: Path) -> None:
    many_rollouts = write_many(tmp_path / "folder" / "demo", EPISODES)
    write_evaluation(tmp_path / "folder" / "after", tasks=50)
    folder = tmp_path / "folder" / "demo" / "artifacts" / "step-0002"
    report(start(folder), "model", [(f"echo {number}", "x" * 5_000) for number in range(100)])
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
        ("/compare", {"a": "demo", "b": "after"}),
        ("/live", {"path": console.path(folder / NAME)}),
    ]
    for page, values in pages:
        times = []
        for _ in range(5):
            started = time.process_time()
            answer = await console.get(page, **values)
            times.append(time.process_time() - started)
            assert answer.status == 200 and len(await answer.read()) < 500_000
        assert min(times) < FIRST_BYTE, f"{page} {values}: {times}"
