"""What a rank shares is what SGLang reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import load_file
from sglang.srt.utils import MultiprocessingSerializer
from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket

if TYPE_CHECKING:
    from .conftest import MakeConfig, Start


@pytest.fixture
def shared_files() -> Iterator[None]:
    """CPU tensors travel by file name, as between processes that do not know each other."""
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    yield
    torch.multiprocessing.set_sharing_strategy(before)


def test_engine_reads_every_tensor_bit_for_bit(start: Start, make_config: MakeConfig, shared_files: None) -> None:
    trainer = start(make_config(tied=True))
    received: dict[str, torch.Tensor] = {}
    buckets = trainer.sender.metadata(max_bytes=50_000)
    for number in range(len(buckets)):
        content = MultiprocessingSerializer.deserialize(trainer.sender.export(number))
        bucket = FlattenedTensorBucket(flattened_tensor=content["flattened_tensor"], metadata=content["metadata"])
        received |= {name: tensor.clone() for name, tensor in bucket.reconstruct_tensors()}
    trainer.sender.release()
    original = load_file(Path(trainer.config.model) / "model.safetensors")
    assert len(buckets) > 1
    assert received.keys() == original.keys()
    assert all(torch.equal(received[name], tensor) for name, tensor in original.items())
