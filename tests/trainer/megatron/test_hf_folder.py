"""Files of weights: written one tensor at a time, and equal to those of the safetensors library."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from swerl_trainer.megatron.errors import ConversionError
from swerl_trainer.megatron.hf_folder import (
    begin_folder,
    building_of,
    end_folder,
    open_folder,
    write_files,
    write_index,
)
from swerl_trainer.weight_bucket import WeightBucket
from torch import Tensor

NAME = "model-00001.safetensors"


def tensors() -> dict[str, Tensor]:
    """Weights of both formats, in an order that the library does not keep; a name is not ASCII."""
    generator = torch.Generator().manual_seed(3)
    return {
        "model.b.weight": torch.randn(5, 3, generator=generator).bfloat16(),
        "model.b.bias": torch.randn(3, generator=generator),
        "model.a.weight": torch.randn(3, 5, generator=generator).t().bfloat16(),
        "model.\u00fc": torch.randn(7, generator=generator).bfloat16(),
    }


def bucket_of(named: dict[str, Tensor]) -> WeightBucket:
    return WeightBucket(
        names=tuple(named),
        dtypes=tuple(str(tensor.dtype).removeprefix("torch.") for tensor in named.values()),
        shapes=tuple(tuple(tensor.shape) for tensor in named.values()),
        bytes=sum(tensor.nbytes for tensor in named.values()),
    )


def test_file_is_that_of_the_library(tmp_path: Path) -> None:
    save_file({name: t.contiguous() for name, t in tensors().items()}, tmp_path / "library", metadata={"format": "pt"})
    write_files(tmp_path, {NAME: bucket_of(tensors())}, tensors().items())
    assert (tmp_path / NAME).read_bytes() == (tmp_path / "library").read_bytes()


def test_one_tensor_at_a_time_is_held(tmp_path: Path) -> None:
    references: list[weakref.ref[Tensor]] = []

    def one_by_one() -> Iterator[tuple[str, Tensor]]:
        for number in range(8):
            assert sum(reference() is not None for reference in references) <= 1
            tensor = torch.full((4,), float(number))
            references.append(weakref.ref(tensor))
            yield f"t{number}", tensor

    named = {f"t{number}": torch.empty(4) for number in range(8)}
    halves = [dict(list(named.items())[:4]), dict(list(named.items())[4:])]
    files = {f"model-0000{number}.safetensors": bucket_of(half) for number, half in enumerate(halves, start=1)}
    write_files(tmp_path, files, one_by_one())
    assert len(references) == 8
    with open_folder(tmp_path) as reader:
        assert reader.chunks(["t5"], None, 0, 1)[0].tolist() == [5.0] * 4


def test_folder_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    like, folder = tmp_path / "model", tmp_path / "hf"
    for path in (like, folder):
        path.mkdir()
        (path / "old.safetensors").touch()
    (like / "config.json").write_text("{}")
    (like / "model.safetensors.index.json").write_text("of other files")
    building, files = building_of(folder, 7), {NAME: bucket_of(tensors())}
    for unfinished in (building, building_of(folder, 6), tmp_path / ".hf.d"):
        unfinished.mkdir()
        (unfinished / "left-by-a-process-that-ended").touch()
    begin_folder(building, like)
    write_files(building, files, tensors().items())
    write_index(building, files)
    assert [path.name for path in folder.iterdir()] == ["old.safetensors"]
    end_folder(building, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", NAME, "model.safetensors.index.json"]
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == dict.fromkeys(tensors(), NAME)
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors().values())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hf.d", "hf", "model"]


def test_tensors_that_are_not_those_of_the_file_are_refused(tmp_path: Path) -> None:
    files = {NAME: bucket_of(tensors())}
    other = tensors() | {"model.b.bias": torch.zeros(4)}
    with pytest.raises(ConversionError, match=r"model.b.bias of float32 \(4,\) does not belong into this file"):
        write_files(tmp_path, files, other.items())
    with pytest.raises(ConversionError, match=r"2 tensors did not come, first model.a.weight"):
        write_files(tmp_path, files, list(tensors().items())[:2])
