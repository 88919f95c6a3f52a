"""Episodes that run, in the lists and on their own page."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode.live import LiveFile, remove_live_file

from .artifacts import RESOLVED, episode, step, turn_messages, write_rollout
from .conftest import PAGE_LIMIT, OpenConsole, shown
from .test_hostile import ATTACK, Elements

NAME = "swe-rl__store-4__gg1__i0__live.jsonl"
OPENING = [{"role": "user", "content": "The total is wrong."}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "folder/demo/artifacts/step-0002"


def start(folder: Path, **about: Any) -> LiveFile:
    """The live file of an episode that began."""
    known = {"instance_id": "swe-rl__store-4", "group": "g1", "index": 0, "agent_name": "builtin"}
    return LiveFile(folder / NAME, {**known, **about})


def report(live: LiveFile, state: str, commands: list[tuple[str, str]]) -> None:
    """A report that is in the file: all turns with their outputs, but that of the last is missing while it runs."""
    turns = [message for number, pair in enumerate(commands) for message in turn_messages(number, *pair)]
    records = [step(number, *pair) for number, pair in enumerate(commands)]
    if state == "environment":
        del turns[-1], records[-1]
    live.report(state, OPENING + turns, records)
    remove_live_file(Path("none"))


async def test_running_episode_is_listed_and_grows(open_console: OpenConsole, folder: Path) -> None:
    live = start(folder)
    report(live, "environment", [("grep -rn total store", "found")])
    console = await open_console()
    assert "demo job 0 0 0 1" in shown(await console.page("/"))
    assert "swe-rl__store-4 runs a command 2 g1 · 0 1" in shown(await console.page("/run", path="demo"))
    path = console.path(folder / NAME)
    page = await console.page("/live", path=path)
    assert "data-live" in page and "grep -rn total store" in page and "The total is wrong." in page
    assert "found" not in page
    report(live, "model", [("grep -rn total store", "found"), ("pytest -q", "3 passed")])
    console.index.scan()
    page = await console.page("/live", path=path)
    assert "waits for the model" in page and "found" in page and "3 passed" in page and "2 turns" in page
    assert "0 episodes" in shown(await console.page("/episodes"))


async def test_page_of_an_ended_episode_is_that_of_its_artifacts(open_console: OpenConsole, folder: Path) -> None:
    report(start(folder), "submitted", [("ls", "a")])
    console = await open_console()
    path = console.path(folder / NAME)
    assert "ended (submitted), is graded" in await console.page("/live", path=path)
    written = write_rollout(folder.parent.parent, episode(), RESOLVED, 2)
    write_rollout(folder.parent.parent, episode("swe-rl__store-4", "g11"), RESOLVED, 2)
    assert (await console.get("/live", path=path)).status == 200
    console.index.scan()
    answer = await console.get("/live", path=path)
    assert answer.status == 302 and written.name in answer.headers["Location"]
    assert (await console.get("/live", path="nowhere")).status == 404


async def test_long_episode_shows_its_newest_turns(open_console: OpenConsole, folder: Path) -> None:
    report(start(folder), "model", [(f"echo {number}", str(number)) for number in range(60)])
    console = await open_console()
    path = console.path(folder / NAME)
    page = await console.page("/live", path=path)
    assert ">echo 59<" in page and ">echo 5<" not in page
    assert ">echo 5<" in await console.page("/live", path=path, turn=0)


async def test_hostile_content_is_shown_and_never_run(open_console: OpenConsole, folder: Path) -> None:
    big = "\x1b[2J" + "<" * 1_000_000
    report(start(folder, instance_id=ATTACK, group=ATTACK), ATTACK, [(ATTACK, ATTACK), (big, big), ("\udc80", "\x00")])
    console = await open_console()
    path = console.path(folder / NAME)
    for page, values in (("/", {}), ("/run", {"path": "demo"}), ("/live", {"path": path})):
        content = await console.page(page, **values)
        assert Elements(content).dangerous == [] and "\x1b" not in content and len(content) <= PAGE_LIMIT
    answer = await console.get("/text", path=path, message=1)
    assert answer.content_type == "text/plain" and ATTACK in await answer.text()


async def test_odd_lines_break_no_page(open_console: OpenConsole, folder: Path) -> None:
    folder.mkdir(parents=True)
    odd = [7, "x", [1], {"a": 1}, [None], None, 1e999]
    lines = [json.dumps(dict.fromkeys(("about", "state", "at", "first", "messages", "steps"), value)) for value in odd]
    whole = json.dumps({"state": "model", "first": 0, "messages": turn_messages(0, "ls", "a")})
    (folder / NAME).write_text("\n".join(["{", "\x00", *lines, whole, whole[:20]]))
    console = await open_console()
    path = console.path(folder / NAME)
    assert "waits for the model" in shown(await console.page("/run", path="demo"))
    assert "1 turns" in shown(await console.page("/live", path=path))
    with (folder / NAME).open("a") as file:
        file.write(whole[20:] + "\n")
    console.index.scan()
    assert console.index.running[path]["turns"] == 1


async def test_another_try_takes_the_place_of_the_first(open_console: OpenConsole, folder: Path) -> None:
    report(start(folder), "model", [("ls", "a"), ("cat a", "b")])
    console = await open_console()
    report(start(folder), "model", [("pwd", "c")])
    console.index.scan()
    assert console.index.running[console.path(folder / NAME)]["turns"] == 1


async def test_episode_that_is_silent_for_a_day_is_not_listed(open_console: OpenConsole, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / NAME).write_text(json.dumps({"state": "model", "at": time.time() - 90_000}) + "\n")
    os.utime(folder / NAME, (time.time() - 90_000,) * 2)
    console = await open_console()
    assert console.index.running == {}
