"""Archives from a sandbox, whose content is the model's choice."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from swerl_agent.sandbox import folders
from swerl_agent.sandbox.errors import FileError


def archive(*members: tuple[str, int]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for name, size in members:
            entry = tarfile.TarInfo(name)
            entry.size = size
            opened.addfile(entry, io.BytesIO(bytes(size)))
    return packed.getvalue()


def test_plain_archive_is_unpacked(tmp_path: Path) -> None:
    folders.unpack(archive(("a/b", 3)), tmp_path / "to")
    assert (tmp_path / "to/a/b").read_bytes() == bytes(3)


def test_odd_links_are_left_out_and_named(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for name, target in {"absolute": "/etc/passwd", "outside": "../../x", "inside": "kept"}.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            opened.addfile(link)
        pipe = tarfile.TarInfo("pipe")
        pipe.type = tarfile.FIFOTYPE
        opened.addfile(pipe)
        kept = tarfile.TarInfo("kept")
        kept.size = 1
        opened.addfile(kept, io.BytesIO(b"x"))
    left_out = folders.unpack(packed.getvalue(), tmp_path / "to")
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["inside", "kept"]
    assert (tmp_path / "to/inside").read_bytes() == b"x"
    assert [name for name in ("absolute", "outside", "pipe") if not any(name in why for why in left_out)] == []
    assert len(left_out) == 3


def test_compressed_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        folders.unpack(gzip.compress(archive(("a", 1))), tmp_path)


def test_archive_of_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds 6 bytes"):
        folders.unpack(archive(("a", 3), ("b", 3)), tmp_path, limit=5)
