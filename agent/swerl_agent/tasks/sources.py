"""Where rows come from: Hugging Face ids, local files and folders, SWE-bench task repositories.

Guarantee: nothing is downloaded, and no library for data sets loaded, for what lies on this machine as .jsonl or
.parquet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

from .repository import CONFIG_FILE, task_columns, task_folders
from .row_files import SUFFIXES, UnreadRow, row_files, unread_rows
from .task import TaskError

DEFAULT_SOURCE = "SWE-Gym/SWE-Gym"

# Short name -> Hugging Face id.
NAMES = {
    "swe-gym": "SWE-Gym/SWE-Gym",
    "swe-gym-lite": "SWE-Gym/SWE-Gym-Lite",
    "swe-gym-subset": "SumanthRH/SWE-Gym-Subset",
    "swe-bench": "SWE-bench/SWE-bench",
    "verified": "SWE-bench/SWE-bench_Verified",
    "lite": "SWE-bench/SWE-bench_Lite",
    "r2e-gym": "R2E-Gym/R2E-Gym-Subset",
}
SPLITS = {"nebius/swe-rebench": "filtered"}  # the published split of sets that have no other rule; ids in lower case
_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")


@dataclass(frozen=True)
class RowSource:
    """A set of rows; `data_source` and `split` hold for the rows that name none themselves."""

    text: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None
    data_source: str = ""

    def unread_rows(self) -> Iterator[UnreadRow]:
        """Every row of the source; raises TaskError when it cannot be read."""
        path = Path(self.text)
        if not path.exists():
            return _numbered(f"{hub_id(self.text)}[{self.hub_split}]", _from_hub(self))
        if (path / CONFIG_FILE).is_file():
            return (UnreadRow(str(folder), partial(task_columns, folder)) for folder in task_folders(path))
        if path.is_dir() and _saved(path):
            return _numbered(self.text, _from_disk(self, path))
        return chain.from_iterable(unread_rows(file) for file in row_files(path))

    @property
    def defaults(self) -> dict[str, str]:
        """What a row has that does not name its origin."""
        if self.data_source or Path(self.text).exists():
            return {"data_source": self.data_source, "split": self.split or ""}
        return {"data_source": hub_id(self.text), "split": self.hub_split}

    @property
    def hub_split(self) -> str:
        """The split asked for; by default the one that is published: test of SWE-bench sets, train of most others."""
        name = hub_id(self.text).lower()
        return self.split or SPLITS.get(name) or ("test" if "swe-bench" in name else "train")


def hub_id(text: str) -> str:
    """The Hugging Face id that a name stands for."""
    return NAMES.get(text.lower(), text)


def is_hub_name(text: str) -> bool:
    """Whether `text`, where nothing on this machine has this path, names a data set."""
    path = Path(text)
    if path.exists():
        return False
    return text.lower() in NAMES or bool(_is_id(text) and not path.parent.exists())


def _is_id(text: str) -> bool:
    return bool(_ID.match(text)) and not text.endswith(SUFFIXES)


def _numbered(name: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[UnreadRow]:
    return (UnreadRow(f"{name}: row {number}", partial(dict, row)) for number, row in enumerate(rows))


def _saved(path: Path) -> bool:
    """Whether `path` was written by the `datasets` library's save_to_disk."""
    return any((path / name).is_file() for name in ("state.json", "dataset_dict.json"))


def _from_disk(source: RowSource, path: Path) -> Iterable[Mapping[str, Any]]:
    library = _library(source.text)
    loaded = library.load_from_disk(str(path))
    if isinstance(loaded, library.DatasetDict):
        if source.hub_split not in loaded:
            raise TaskError(f"{path} has no split {source.hub_split!r}; it has {', '.join(loaded)}")
        loaded = loaded[source.hub_split]
    return cast(Iterable[Mapping[str, Any]], loaded)


def _from_hub(source: RowSource) -> Iterable[Mapping[str, Any]]:
    name, split = hub_id(source.text), source.hub_split
    if not _is_id(name):
        raise TaskError(f"{source.text}: no such file or folder, and no Hugging Face id (owner/name)")
    library = _library(name)
    try:
        loaded = library.load_dataset(name, source.config, split=split, revision=source.revision)
    except (OSError, ValueError, library.exceptions.DatasetsError) as error:
        raise TaskError(
            f"data set {name}, split {split!r}, cannot be loaded from Hugging Face: {_first_line(error)}"
            " (without network, give a .jsonl or .parquet file of it)"
        ) from error
    return cast(Iterable[Mapping[str, Any]], loaded)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _library(name: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise TaskError(f"{name}: this needs the package datasets; in a checkout: uv pip install '.[agent]'") from error
    datasets.disable_progress_bars()
    return datasets
