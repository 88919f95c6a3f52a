"""Folders in Hugging Face format: `config.json`, tokenizer files and `*.safetensors`, read and written in streams.

Guarantees: a reader never reads more than the chunks asked for; a written folder appears at its path complete or not
at all.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from swerl_trainer.megatron.errors import ConversionError
from torch import Tensor

SHARD_BYTES = 4 * 2**30  # weights per file
PEFT_PREFIX = "base_model.model."  # of names in adapter_model.safetensors
_INDEX = "model.safetensors.index.json"


class HFReader:
    """Tensors of an open folder by name."""

    def __init__(self, folder: Path, files: dict[str, Any]) -> None:
        self.folder = folder
        self._files = files

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape per tensor, read from the headers."""
        return {name: tuple(file.get_slice(name).get_shape()) for name, file in self._files.items()}

    def chunks(self, names: Sequence[str], dimension: int | None, rank: int, size: int) -> list[Tensor]:
        """Chunk `rank` of `size` of each tensor along `dimension`, on the CPU; the last ones may be shorter. With None
        the whole tensor."""
        return [self._chunk(name, dimension, rank, size) for name in names]

    def _chunk(self, name: str, dimension: int | None, rank: int, size: int) -> Tensor:
        file = self._files[name]
        if dimension is None or size == 1:
            return file.get_tensor(name)  # type: ignore[no-any-return]
        part = file.get_slice(name)
        total = part.get_shape()[dimension]
        length = -(-total // size)
        span = slice(min(rank * length, total), min((rank + 1) * length, total))
        return part[span] if dimension == 0 else part[:, span]  # type: ignore[no-any-return]


@contextmanager
def open_folder(folder: Path) -> Iterator[HFReader]:
    """Raises ConversionError when there are no weights in `folder`."""
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise ConversionError(f"no *.safetensors in {folder}: give a model folder in Hugging Face format")
    with ExitStack() as stack:
        files: dict[str, Any] = {}
        for path in paths:
            opened = stack.enter_context(safe_open(path, framework="pt"))
            files |= dict.fromkeys(opened.keys(), opened)
        yield HFReader(folder, files)


def write_folder(folder: Path, like: Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write `tensors` with the configuration and tokenizer of `like` to `folder`, replacing what is there."""
    with _replaced(folder) as building:
        for path in sorted(like.iterdir()):
            if path.is_file() and path.suffix != ".safetensors" and path.name != _INDEX:
                shutil.copyfile(path, building / path.name)
        _write_shards(building, tensors)


def write_adapter(folder: Path, config: Mapping[str, Any], factors: Iterable[tuple[str, Tensor]]) -> None:
    """Write a PEFT adapter with the `adapter_config.json` of `config` to `folder`, replacing what is there."""
    with _replaced(folder) as building:
        (building / "adapter_config.json").write_text(json.dumps(config, indent=1))
        found = {f"{PEFT_PREFIX}{name}": factor.detach().to("cpu").contiguous() for name, factor in factors}
        save_file(found, building / "adapter_model.safetensors", metadata={"format": "pt"})


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `folder` at the end of the block."""
    building = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    yield building
    if folder.exists():
        shutil.rmtree(folder)
    building.rename(folder)


def _write_shards(folder: Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    weight_map: dict[str, str] = {}
    total = number = 0
    shard: dict[str, Tensor] = {}

    def flush() -> None:
        nonlocal number, shard
        number += 1
        name = f"model-{number:05d}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(shard, name))
        shard = {}

    for name, tensor in tensors:
        if shard and sum(t.nbytes for t in shard.values()) + tensor.nbytes > SHARD_BYTES:
            flush()
        shard[name] = tensor.detach().to("cpu", copy=True).contiguous()
        total += tensor.nbytes
    flush()
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / _INDEX).write_text(json.dumps(index, indent=1, sort_keys=True))
