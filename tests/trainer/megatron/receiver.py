"""An engine's side of a weight update, with SGLang's own functions: `receiver.py INIT_METHOD FOLDER`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from sglang.srt.utils import init_custom_process_group
from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket


def main(init_method: str, folder: Path) -> None:
    (folder / "ready").touch()
    group = init_custom_process_group("gloo", init_method=init_method, world_size=2, rank=1, group_name="w")
    received: dict[str, torch.Tensor] = {}
    for names, dtypes, shapes in torch.load(folder / "buckets.pt"):
        bucket = FlattenedTensorBucket.empty(names, dtypes, shapes, device="cpu")
        torch.distributed.broadcast(bucket.get_flattened_tensor(), src=0, group=group)
        received |= {name: tensor.clone() for name, tensor in bucket.reconstruct_tensors()}
    torch.save(received, folder / "received.pt")
    torch.distributed.destroy_process_group(group)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
    os._exit(0)  # threads of gloo sometimes abort an interpreter on its way out
