"""Sources of other modules, changed for a machine that their authors did not think of.

Guarantees: what is changed is the text that is named here, exactly once, in a copy; a version in which it reads
otherwise fails the build and says so.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError


@dataclass(frozen=True)
class SourcePatch:
    """In `file` of `module`, `old` becomes `new`, because of `why`."""

    module: str
    file: str
    old: str
    new: str
    reason: str


def apply(patches: tuple[SourcePatch, ...], sources: dict[str, Path], module: Path, work: Path) -> Path:
    """A go.mod in `work` that takes changed copies of `sources` (module -> folder) for the Go module in `module`."""
    text = (module / "go.mod").read_text()
    for number, (name, source) in enumerate(sources.items()):
        copy = work / str(number)
        shutil.copytree(source, copy, copy_function=_copy_writable)
        for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        for patch in patches:
            if patch.module == name:
                _change(patch, copy)
        text += f"\nreplace {name} => {copy}\n"
    shutil.copyfile(module / "go.sum", work / "go.sum")
    (work / "go.mod").write_text(text)
    return work / "go.mod"


def _change(patch: SourcePatch, copy: Path) -> None:
    path = copy / patch.file
    text = path.read_text() if path.exists() else ""
    if text.count(patch.old) != 1:
        raise ClusterError(f"{patch.module} has no single {patch.old!r} in {patch.file} any more ({patch.reason})")
    path.write_text(text.replace(patch.old, patch.new))


def _copy_writable(source: str, target: str) -> None:
    shutil.copyfile(source, target)  # the module cache is read-only, its modes with it
