"""The volume of a namespace's jobs as a file system of its own, which can be full, or not answer."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BALLAST = "ballast"


@dataclass(frozen=True)
class LimitedVolume:
    """A mounted file system."""

    folder: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Meanwhile nothing fits on it."""
        ballast = self.folder / BALLAST
        try:
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):  # others write to it too
                while file.write(bytes(2**20)):
                    pass
            yield
        finally:
            ballast.unlink()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Meanwhile writes wait, as on a network volume that has lost its server."""
        _run("fsfreeze", "--freeze", str(self.folder))
        try:
            yield
        finally:
            _run("fsfreeze", "--unfreeze", str(self.folder))


@contextmanager
def limited_volume(folder: Path, image: Path, size: int) -> Iterator[LimitedVolume]:
    """A file system of `size` bytes in the file `image`, mounted at `folder` before any Pod uses it."""
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-o", "loop", str(image), str(folder))
    folder.chmod(0o777)
    try:
        yield LimitedVolume(folder)
    finally:
        _run("umount", "--lazy", str(folder))  # Pods that end may still use it


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
