"""Rows of a journal survive a killed process and a full disk."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from swerl_agent.storage import Journal, JournalError

from tests.full_disk import files_end_at

THREADS = 4


def number(row: Mapping[str, Any]) -> int:
    return int(row["n"])


def test_partly_written_row_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    journal = Journal(path, number)
    journal.append({"n": 1})
    bytes_before = path.read_bytes()
    with files_end_at(len(bytes_before) + 3), pytest.raises(OSError, match="File too large"):
        journal.append({"n": 2})
    assert path.read_bytes() == bytes_before
    journal.append({"n": 3})
    assert list(Journal(path, number).rows()) == [1, 3]


def test_reading_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert list(Journal(path, number).rows()) == []
    assert not path.exists()
    path.write_bytes(b'{"n": 1}\n{"n": ')
    assert list(Journal(path, number).rows()) == [1]
    assert path.read_bytes() == b'{"n": 1}\n{"n": '


def test_incomplete_last_line_is_dropped_and_other_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 1}\n\n{"n": ')
    journal = Journal(path, number)
    assert list(journal.rows()) == [1]
    journal.append({"n": 2})
    assert list(journal.rows()) == [1, 2]
    path.write_bytes(b'{"n": 1}\n{"m": 2}\n')
    with pytest.raises(JournalError, match=r"rows\.jsonl:2: KeyError"):
        list(Journal(path, number).rows())


def test_concurrent_appends_are_all_kept(tmp_path: Path) -> None:
    together = Barrier(THREADS)

    def append(journal: Journal[int], n: int) -> None:
        together.wait()
        journal.append({"n": n})

    with ThreadPoolExecutor(THREADS) as threads:
        for number_of_file in range(50):  # the first rows of a file are those that race
            journal = Journal(tmp_path / f"{number_of_file}.jsonl", number)
            list(threads.map(append, [journal] * THREADS, range(THREADS)))
            assert sorted(journal.rows()) == list(range(THREADS))
