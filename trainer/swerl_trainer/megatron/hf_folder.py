"""Folders in Hugging Face format: `config.json`, tokenizer files and `*.safetensors`, read and written in streams.

Guarantees: a reader never reads more than the chunks asked for; a written folder appears at its path complete or not
at all; weights are written one tensor at a time, to the same bytes as by the safetensors library.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from swerl_trainer.megatron.errors import ConversionError
from swerl_trainer.weight_bucket import WeightBucket
from torch import Tensor

SHARD_BYTES = 4 * 2**30  # weights per file
PEFT_PREFIX = "base_model.model."  # of names in adapter_model.safetensors
_INDEX = "model.safetensors.index.json"
_FORMATS = {"float32": "F32", "bfloat16": "BF16"}  # names of safetensors


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


def building_of(folder: Path, pid: int) -> Path:
    """The folder beside `folder` in which the process `pid` and others build what will take its place."""
    return folder.with_name(f".{folder.name}.{pid}")


def begin_folder(building: Path, like: Path) -> None:
    """Make the folder `building` with the configuration and tokenizer of `like`."""
    _make_empty(building)
    for path in sorted(like.iterdir()):
        if path.is_file() and path.suffix != ".safetensors" and path.name != _INDEX:
            shutil.copyfile(path, building / path.name)


def write_files(building: Path, files: Mapping[str, WeightBucket], tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write each bucket to its file; `tensors` are theirs, in the same order."""
    remaining = iter(tensors)
    for name, bucket in files.items():
        _write_file(building / name, bucket, islice(remaining, len(bucket.names)))


def write_index(building: Path, files: Mapping[str, WeightBucket]) -> None:
    """Write the index of all `files` of the model."""
    index = {
        "metadata": {"total_size": sum(bucket.bytes for bucket in files.values())},
        "weight_map": {tensor: name for name, bucket in files.items() for tensor in bucket.names},
    }
    (building / _INDEX).write_text(json.dumps(index, indent=1, sort_keys=True))


def end_folder(building: Path, folder: Path) -> None:
    """Let the complete `building` take the place of `folder`."""
    if folder.exists():
        shutil.rmtree(folder)
    building.rename(folder)


def write_adapter(folder: Path, config: Mapping[str, Any], factors: Iterable[tuple[str, Tensor]]) -> None:
    """Write a PEFT adapter with the `adapter_config.json` of `config` to `folder`, replacing what is there."""
    building = building_of(folder, os.getpid())
    _make_empty(building)
    (building / "adapter_config.json").write_text(json.dumps(config, indent=1))
    found = {f"{PEFT_PREFIX}{name}": factor.detach().to("cpu").contiguous() for name, factor in factors}
    save_file(found, building / "adapter_model.safetensors", metadata={"format": "pt"})
    end_folder(building, folder)


def _make_empty(building: Path) -> None:
    """Make the folder; what processes that ended have left of the same one goes."""
    for unfinished in building.parent.glob(f"{building.stem}.*"):
        if unfinished.suffix[1:].isdigit():
            shutil.rmtree(unfinished, ignore_errors=True)
    building.mkdir(parents=True)


def _write_file(path: Path, bucket: WeightBucket, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write the tensors of `bucket`, each when it comes. Raises ConversionError unless they are those of the bucket."""
    header, starts = _header(bucket)
    expected = dict(zip(bucket.names, zip(bucket.dtypes, bucket.shapes, strict=True), strict=True))
    with path.open("wb") as file:
        file.write(header)
        for name, tensor in tensors:
            found = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
            if found != expected.pop(name, None):
                raise ConversionError(f"{path}: {name} of {found[0]} {found[1]} does not belong into this file")
            file.seek(starts[name])
            file.write(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    if expected:
        raise ConversionError(f"{path}: {len(expected)} tensors did not come, first {next(iter(expected))}")


def _header(bucket: WeightBucket) -> tuple[bytes, dict[str, int]]:
    """The header of a safetensors file, and where each tensor starts in the file. As in the library's `serialize`, wide
    number formats come first, so that each tensor is aligned, and the header's length is a multiple of 8."""
    sizes = {name: getattr(torch, dtype).itemsize for name, dtype in zip(bucket.names, bucket.dtypes, strict=True)}
    entries = sorted(
        zip(bucket.names, bucket.dtypes, bucket.shapes, strict=True), key=lambda entry: (-sizes[entry[0]], entry[0])
    )
    described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    starts: dict[str, int] = {}
    start = 0
    for name, dtype, shape in entries:
        end = start + sizes[name] * math.prod(shape)
        described[name] = {"dtype": _FORMATS[dtype], "shape": list(shape), "data_offsets": [start, end]}
        start, starts[name] = end, start
    text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, {name: 8 + len(text) + begin for name, begin in starts.items()}
