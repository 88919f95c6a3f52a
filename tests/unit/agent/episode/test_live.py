"""The live file of an episode: it grows while the episode runs, and its artifacts replace it."""

from __future__ import annotations

import json
from pathlib import Path

from swerl_agent.episode import write_artifacts
from swerl_agent.episode.live import LiveFile, remove_live_file
from swerl_agent.trajectories.live import live_trajectory

from tests.scripted_engine import block

from .conftest import SUBMIT, Run

NAME = "kit__kit-1__gg3__i2__live.jsonl"


def test_file_grows_while_the_episode_runs(run: Run, tmp_path: Path) -> None:
    live, copy = tmp_path / "out" / NAME, tmp_path / "copy"
    first_record = f"timeout 20 sh -c 'until grep -q output_[h]ead {live}; do sleep 0.05; done'"
    episode, _ = run(block("echo one"), block(f"{first_record} && cp {live} {copy}"), block(SUBMIT), live=live.parent)
    before = live_trajectory(copy)
    assert [turn.content for turn in before.turns] == [block("echo one"), block(f"{first_record} && cp {live} {copy}")]
    assert before.turns[0].commands[0].output == "one\n" and "one" in before.turns[0].observations[0][2]
    assert before.turns[1].commands == [] and before.info["instance_id"] == "kit__kit-1"
    remove_live_file(tmp_path / "other")  # after everything that was reported
    lines = [json.loads(line) for line in live.read_text().splitlines()]
    assert [line.get("state") for line in lines[1:4]] == ["total", "model", "environment"]
    assert lines[-1]["state"] == "submitted"
    assert [turn.content for turn in live_trajectory(live).turns] == [
        message["content"] for message in episode.messages if message["role"] == "assistant"
    ]
    folder = write_artifacts(live.parent, episode, None)
    assert [path.name for path in live.parent.iterdir()] == [folder.name]


def test_episode_without_a_folder_writes_none(run: Run, tmp_path: Path) -> None:
    episode, _ = run(block(SUBMIT))
    assert episode.exit_status == "submitted" and not list(tmp_path.glob("**/*live*"))


def test_disk_that_refuses_ends_no_episode(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    episode, _ = run(block(SUBMIT), live=tmp_path / "file")
    assert episode.exit_status == "submitted"


def test_another_conversation_replaces_the_first(tmp_path: Path) -> None:
    live = LiveFile(tmp_path / NAME, {})
    first = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    live.report("model", first, [])
    live.report("model", [*first, {"role": "user", "content": "c"}], [])
    live.report("model", [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}] * 2, [])
    remove_live_file(tmp_path / "other")
    assert [turn.content for turn in live_trajectory(tmp_path / NAME).turns] == ["y", "y"]
    counts = [len(json.loads(line).get("messages", [])) for line in (tmp_path / NAME).read_text().splitlines()]
    assert counts == [0, 2, 1, 4]
