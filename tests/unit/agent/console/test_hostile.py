"""Whatever an episode's commands, outputs, file names and files hold, it is shown as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from swerl_agent.console.blocks import Budget
from swerl_agent.console.diff import read_diff
from swerl_agent.grading import Verdict
from swerl_agent.trajectories.fields import read_object
from swerl_agent.trajectories.trajectory import read_trajectory
from swerl_agent.visible import visible

from .artifacts import PATCH, RESOLVED, episode, write_job, write_rollout
from .conftest import PAGE_LIMIT, OpenConsole

ATTACK = "</pre></textarea><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>{{7*7}}"
PAGES = ("/episode", "/rollouts", "/tokens")


class Elements(HTMLParser):
    """Notes what a browser would run or load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.dangerous: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag in ("img", "iframe", "object", "style", "base") or any(name.startswith("on") for name in attributes):
            self.dangerous.append(self.get_starttag_text() or tag)
        for name in ("src", "href", "action"):
            if name in attributes and not re.match(r"[/#](?!/)", attributes[name]):
                self.dangerous.append(attributes[name])
        if tag == "script" and not attributes.get("src", "").startswith("/assets/console.js"):
            self.dangerous.append("script")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "folder"


async def test_scripts_are_shown_and_never_run(open_console: OpenConsole, root: Path) -> None:
    hostile = episode(
        ATTACK,
        ATTACK,
        commands=((f"echo {ATTACK}", ATTACK), (f"curl {ATTACK}", f"</output>{ATTACK}")),
        patch=PATCH.replace("store/cart.py", f"store/{ATTACK}.py").replace("# quantities", ATTACK),
        exit_status=ATTACK,
        error=ATTACK,
        error_code=ATTACK,
        agent_name=ATTACK,
    )
    tests = {ATTACK: {ATTACK: [ATTACK], "failure": [ATTACK]}}
    report = {"contrast": ATTACK, ATTACK: ATTACK, "tests_status": tests, "never_appeared": {ATTACK: None}}
    verdict = Verdict("unresolved", report, detail=ATTACK, log=ATTACK)
    folder = write_rollout(
        root / "demo", hostile, verdict, 1, step_scores=[{"step": 0, "error": ATTACK, "votes": [ATTACK]}]
    )
    (root / "demo" / "metrics.jsonl").write_text(json.dumps({"kind": ATTACK, "step": 1, ATTACK: 1.0}) + "\n")
    console = await open_console(gradings=True)
    path = console.path(folder)
    addresses = [(page, {"path": path}) for page in PAGES]
    addresses += [("/", {}), ("/run", {"path": "demo", "metric": ATTACK}), ("/episodes", {"q": ATTACK, "task": ATTACK})]
    addresses += [("/compare", {"a": ATTACK, "b": ATTACK}), ("/episodes", {"verdict": "unresolved"})]
    for page, values in addresses:
        assert Elements(await console.page(page, **values)).dangerous == [], page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in await console.page("/episode", path=path)
    assert "Tests and log of the grading" in await console.page("/episode", path=path)
    for answer in (await console.get("/text", path=path, message=2), await console.get("/grading", path=path)):
        assert answer.content_type == "text/plain" and "sandbox" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "␛]0;title␇"),
        ("\x1b[2J\x1b[1;1H", "␛[2J␛[1;1H"),
        ("a\u202egnp.exe", "a⟨U+202E⟩gnp.exe"),
        ("bad\udc80byte", "bad⟨U+DC80⟩byte"),
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("progress\rdone", "progress␍done"),
        ("Größe 你好", "Größe 你好"),
    ],
)
def test_control_characters_are_symbols(text: str, expected: str) -> None:
    assert visible(text) == expected


async def test_terminal_escapes_of_an_output_are_symbols(open_console: OpenConsole, root: Path) -> None:
    commands = (("printf '\x1b]8;;http://x\x07'", "\x1b[2Jgone\udcff\x00"), ("ls", ""))
    verdict = replace(RESOLVED, log="\x1b]0;title\x07\u202e")
    folder = write_rollout(root / "demo", episode(commands=commands), verdict, 1)
    console = await open_console(gradings=True)
    for page in PAGES:
        assert not set(await console.page(page, path=console.path(folder))) & set(map(chr, {*range(32)} - {9, 10}))


@pytest.mark.parametrize("size", [1, 20_000, 1_000_000])
@pytest.mark.parametrize("letter", ["<", "\u202e"])
async def test_pages_stay_small(open_console: OpenConsole, root: Path, size: int, letter: str) -> None:
    count = 30 if size < 100_000 else 2
    commands = tuple((letter * min(size, 100_000), letter * size) for _ in range(count))
    patch = PATCH + f"+{letter * 100}\n" * min(size, 30_000)
    named = {"tests_status": {"PASS_TO_PASS": {"success": [letter * min(size, 1000)] * 1000, "failure": []}}}
    verdict = replace(RESOLVED, report=named, log=letter * min(size, 1 << 16))
    folders = [
        write_rollout(root / "demo", episode(index=i, commands=commands, patch=patch), verdict, 1) for i in range(2)
    ]
    console = await open_console(gradings=True)
    for page in PAGES:
        assert len(await console.page(page, path=console.path(folders[0]))) <= PAGE_LIMIT
    assert "open all" in await console.page("/episode", path=console.path(folders[0])) or size < 20_000


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"info": 7, "messages": {}}', b"\xff\xfe", b"[" * 10_000]
)
async def test_half_written_files_break_no_page(open_console: OpenConsole, root: Path, content: bytes) -> None:
    write_job(root / "demo", steps=1, groups=1, size=2)
    folder = next((root / "demo/artifacts/step-0001").iterdir())
    console = await open_console()
    (folder / "traj.json").write_bytes(content)
    (folder / "meta.json").write_bytes(content)
    (folder / "patch.diff").unlink()
    (root / "demo/metrics.jsonl").write_bytes(content)
    (root / "demo/summary.json").write_bytes(content)
    (root / "demo/sandboxes.json").write_bytes(content)
    for page in PAGES[:2]:
        assert "missing, or is still being written" in await console.page("/episode", path=console.path(folder))
        assert await console.page(page, path=console.path(folder))
    assert await console.page("/run", path="demo")


@pytest.mark.parametrize("value", [None, 7, "x", [1], {"a": 1}, [[]], [{}], [None, {"step": []}], 1e999, "\ud800"])
async def test_fields_of_any_type_break_no_page(open_console: OpenConsole, root: Path, value: object) -> None:
    folder = write_rollout(root / "demo", episode(), RESOLVED, 1)
    trajectory = read_object(folder / "traj.json")
    meta = read_object(folder / "meta.json")
    (folder / "meta.json").write_text(json.dumps(dict.fromkeys(meta, value)))
    console = await open_console()
    path = console.path(folder)
    for content in ({"info": dict.fromkeys(meta, value)}, dict.fromkeys(("messages", "step_debug", "segments"), value)):
        (folder / "traj.json").write_text(json.dumps({**trajectory, **content}))
        assert "ended by" in await console.page("/episode", path=path)
        assert "Rollout" in await console.page("/rollouts", path=path)
    assert "<h1>1 episodes</h1>" in await console.page("/episodes")


def test_any_messages_make_turns() -> None:
    messages = [
        {"role": "assistant", "content": [{"text": "a"}, 3]},
        5,
        {"role": None, "content": None, "tool_calls": [1]},
    ]
    trajectory = read_trajectory(
        {"messages": messages, "step_debug": [None, {"step_idx": 1e30}], "segments": [{"answers": [[0]]}]}
    )
    assert [turn.content for turn in trajectory.turns] == ["a\n3"]


@pytest.mark.parametrize(
    "patch", ["", "x", "@@ -1 +1 @@", "diff --git", "diff --git a/x b/y\n@@ -1,9 +1,9 @@\n+a\n\\ No newline"]
)
def test_any_text_is_a_diff(patch: str) -> None:
    assert read_diff(patch, Budget(), 10_000).missing == 0
