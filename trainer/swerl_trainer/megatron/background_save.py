"""The part of a save that runs beside training.

Guarantees: when BackgroundSave is made, all that it will write is copied to this host, so weights and optimizer may
change; writing is no collective and uses no process group; a rank's files are on disk when `written` returns.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist
from swerl_trainer.checkpoints import FileSum, sum_files
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.process_group import of_all_ranks

from megatron.core.dist_checkpointing.core import CheckpointingConfig, save_config
from megatron.core.dist_checkpointing.strategies.filesystem_async import FileSystemWriterAsync
from megatron.core.dist_checkpointing.strategies.torch import TorchDistSaveShardedStrategy


class RankPart(NamedTuple):
    """One rank's share of a checkpoint: where each tensor lies, and the sums of its files."""

    results: list[Any]
    files: dict[str, FileSum]


class PlannedSave(TorchDistSaveShardedStrategy):  # type: ignore[misc]  # megatron is untyped
    """Keeps the writer and the metadata that Megatron's plan gives, which otherwise only a collective can use."""

    writer: Any = None
    metadata: Any = None  # of rank 0; None on the others

    def _get_save_and_finalize_callbacks(self, writer: Any, planned: Any, async_strategy: str) -> Any:
        self.writer, self.metadata, _ = planned
        return super()._get_save_and_finalize_callbacks(writer, planned, async_strategy)


class BackgroundSave:
    """One rank's writing of one checkpoint, from `planned`; `live`: storages of tensors that training changes."""

    def __init__(self, folder: Path, planned: PlannedSave, live: set[int]) -> None:
        self._folder = folder
        self._planned = planned
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        buckets = planned.writer.write_buckets
        copied = FileSystemWriterAsync.preload_tensors(buckets) if buckets else []
        self._buckets = [(path, name, (raw, _detached(tensors, live))) for path, name, (raw, tensors) in copied]
        planned.writer.write_buckets = None  # or its copies would stay until the next save
        self._work: Future[RankPart] = self._thread.submit(self._write)

    def written(self) -> RankPart:
        """Wait until this rank's files are on disk. Raises TrainerError with the room on the volume: torch's error on a
        full one does not name it."""
        try:
            return self._work.result()
        except Exception as error:
            room = shutil.disk_usage(self._folder).free / 2**20
            raise TrainerError(f"{self._folder} was not written, with {room:.0f} MiB free: {error}") from error
        finally:
            self._thread.shutdown()

    def complete(self, parts: Sequence[RankPart]) -> dict[str, FileSum]:
        """On rank 0: write what describes the files of all ranks; the sums of all files of the folder."""
        self._planned.writer.finish(self._planned.metadata, [part.results for part in parts])
        save_config(CheckpointingConfig(self._planned.backend, self._planned.version), str(self._folder))
        files = {name: each for part in parts for name, each in part.files.items()}
        others = {path.name for path in self._folder.iterdir() if path.is_file()} - files.keys()
        return files | sum_files(self._folder, sorted(others))

    def _write(self) -> RankPart:
        results, transforms = [], [self._planned.writer.transforms]
        for number, bucket in enumerate(self._buckets):
            _, outcome = FileSystemWriterAsync.write_preloaded_data(transforms, number, bucket, None, None, True)
            if isinstance(outcome, Exception):
                raise outcome
            results += outcome
        names = [name for _, name, _ in self._buckets]
        self._buckets = []
        return RankPart(results, sum_files(self._folder, names))


def complete_together(saving: BackgroundSave) -> None:
    """Wait until the files of all ranks are written and described; a collective."""
    parts = of_all_ranks(saving.written())
    if dist.get_rank() == 0:
        saving.complete(parts)
    dist.barrier()


def _detached(tensors: Sequence[tuple[Any, Any]], live: set[int]) -> list[tuple[Any, Any]]:
    """The items with tensors that share no memory with `live`; those from a GPU are copies already."""
    return [(item, t.clone() if t.untyped_storage().data_ptr() in live else t) for item, t in tensors]
