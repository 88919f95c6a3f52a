"""The index follows its folder."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from swerl_agent.console import EpisodeIndex, index_path, is_foreign
from swerl_agent.console.query import Filters, episodes, runs

from .artifacts import RESOLVED, episode, write_evaluation, write_job, write_rollout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def opened(root: Path) -> EpisodeIndex:
    return EpisodeIndex(root, root / ".swerl-index.sqlite")


def tasks(index: EpisodeIndex) -> list[str]:
    with index.read() as database:
        return sorted(row["task"] for row in episodes(database, Filters({}), 0)[1])


def test_an_episode_is_read_once(root: Path) -> None:
    write_job(root / "demo", steps=2)
    assert opened(root).scan() == 16
    reopened = opened(root)
    assert [reopened.scan(), reopened.scan()] == [0, 0]
    write_rollout(root / "demo", episode("new"), RESOLVED, 2)
    write_rollout(root / "demo", episode("newer"), RESOLVED, 9)
    assert [reopened.scan(), reopened.scan()] == [2, 0]


def test_job_below_a_folder_with_a_summary_of_its_own_is_found(root: Path) -> None:
    write_job(root / "output", steps=1)
    (root / "summary.json").write_text("{}")
    index = opened(root)
    index.scan()
    with index.read() as database:
        assert [(row["path"], row["kind"]) for row in runs(database)] == [("output", "job")]


def test_episode_appears_with_its_meta_file(root: Path) -> None:
    folder = write_rollout(root / "demo", episode("late"), RESOLVED, 1)
    meta = (folder / "meta.json").read_bytes()
    (folder / "meta.json").write_bytes(meta[:100])
    os.utime(folder.parent, (time.time() - 60,) * 2)
    index = opened(root)
    assert index.scan() == 0 and tasks(index) == []
    (folder / "meta.json").write_bytes(meta)
    assert index.scan() == 1 and tasks(index) == ["late"]


def test_values_that_sqlite_lacks_do_not_stop_the_index(root: Path) -> None:
    folder = write_rollout(root / "demo", episode("strange"), RESOLVED, 1)
    meta = json.loads((folder / "meta.json").read_bytes()) | {"audit": [{"rule": "\ud800"}], "index": 10**30}
    (folder / "meta.json").write_text(json.dumps(meta))
    folder.rename(folder.with_name(f"strange__g0__i{10**30}__{10**20 - 1}"))
    assert opened(root).scan() == 1


def test_folders_that_are_gone_leave_the_index(root: Path) -> None:
    write_evaluation(root / "one", tasks=1, samples=1)
    write_evaluation(root / "two", tasks=3, samples=1)
    index = opened(root)
    index.scan()
    shutil.rmtree(next((root / "two").glob("swe-rl__store-2__*")))
    index.scan()
    assert len(tasks(index)) == 3
    shutil.rmtree(root / "two")
    index.scan()
    with index.read() as database:
        assert [row["path"] for row in runs(database)] == ["one"]
    assert len(tasks(index)) == 1


def test_shards_belong_to_the_merged_evaluation(root: Path) -> None:
    write_evaluation(root / "eval/shard-0-of-1", tasks=2)
    index = opened(root)
    index.scan()
    (root / "eval/results.jsonl").write_bytes((root / "eval/shard-0-of-1/results.jsonl").read_bytes())
    index.scan()
    with index.read() as database:
        assert [(row["path"], row["episodes"]) for row in runs(database)] == [("eval", 4)]


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\x00" + b"x" * 4096])
def test_broken_index_is_built_again(root: Path, content: bytes) -> None:
    write_job(root / "demo", steps=1)
    (root / ".swerl-index.sqlite").write_bytes(content)
    assert opened(root).scan() == 8


def test_files_that_are_no_index_are_foreign(root: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text('{"instance_id": "o__r-1"}')
    (tmp_path / "empty").touch()
    for name, table in (("other", "things"), ("index", "episodes")):
        with sqlite3.connect(tmp_path / name) as database:
            database.execute(f"create table {table} (path)")
    found = {name: is_foreign(tmp_path / name) for name in ("text", "empty", "other", "index", "absent")}
    assert found == {"text": True, "empty": False, "other": True, "index": False, "absent": False}
    assert is_foreign(tmp_path)


def test_locked_index_is_not_deleted(root: Path) -> None:
    write_job(root / "demo", steps=1)
    opened(root).scan()
    path = root / ".swerl-index.sqlite"
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as database:
        database.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            opened(root)
    assert path.read_bytes() == before


def test_index_of_another_version_is_built_again(root: Path) -> None:
    write_job(root / "demo", steps=1)
    opened(root).scan()
    with sqlite3.connect(root / ".swerl-index.sqlite") as database:
        database.execute("pragma user_version = 99")
    assert opened(root).scan() == 8


def test_index_is_beside_the_artifacts_where_it_can_be(root: Path, tmp_path: Path) -> None:
    assert index_path(root, tmp_path / "cache") == root / ".swerl-index.sqlite"
    assert index_path(Path("/proc/self"), tmp_path / "cache").parent == tmp_path / "cache"


def test_links_and_models_are_not_entered(root: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "elsewhere", steps=1)
    (root / "link").symlink_to(tmp_path / "elsewhere")
    write_job(root / "checkpoints" / "job", steps=1)
    index = opened(root)
    assert index.scan() == 0


def test_nothing_but_the_index_changes(root: Path) -> None:
    write_job(root / "demo", steps=1)
    times_before = {path: path.stat().st_mtime_ns for path in (root / "demo").rglob("*")}
    opened(root).scan()
    assert {path: path.stat().st_mtime_ns for path in (root / "demo").rglob("*")} == times_before
    assert sorted(path.name for path in root.iterdir()) == [".swerl-index.sqlite", "demo"]


def test_row_has_what_the_episode_says(root: Path) -> None:
    folder = write_rollout(root / "demo", episode("a__b-1", "g7", 3), RESOLVED, 12)
    index = opened(root)
    index.scan()
    with index.read() as database:
        row = episodes(database, Filters({"task": "a__b-1"}), 0)[1][0]
    meta = json.loads((folder / "meta.json").read_text())
    assert (row["run"], row["purpose"], row["step"], row["group_id"], row["member"]) == ("demo", "train", 12, "g7", 3)
    assert (row["reward"], row["resolved"], row["turns"]) == (1.0, 1, meta["turns"])
