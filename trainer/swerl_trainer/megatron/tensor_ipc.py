"""Exporting a flat bucket of weights to an engine on the same device without a copy through the host (CUDA IPC).

Guarantees: only a handle of a few hundred bytes is sent; SGLang's own functions make it, because its unpickler accepts
only known types.
"""

from __future__ import annotations

import torch
from sglang.srt.utils import MultiprocessingSerializer
from sglang.srt.utils.patch_torch import monkey_patch_torch_reductions
from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorMetadata
from swerl_trainer.weight_bucket import WeightBucket
from torch import Tensor


def handle_of(flat: Tensor, bucket: WeightBucket) -> str:
    """The argument of `update_weights_from_tensor` per rank with `load_format="flattened_bucket"`; valid while `flat`
    lives.

    `flat`: uint8 [bucket.bytes], laid out as `bucket` says.
    """
    if flat.is_cuda:
        monkey_patch_torch_reductions()  # identifies the device by UUID, because each process numbers its own
        torch.cuda.synchronize(flat.device)
    content = {"flattened_tensor": flat, "metadata": _metadata(bucket)}
    return str(MultiprocessingSerializer.serialize(content, output_str=True))


def _metadata(bucket: WeightBucket) -> list[FlattenedTensorMetadata]:
    metadata, start = [], 0
    for name, dtype_name, shape in zip(bucket.names, bucket.dtypes, bucket.shapes, strict=True):
        dtype: torch.dtype = getattr(torch, dtype_name)
        size = torch.Size(shape)
        end = start + size.numel() * dtype.itemsize
        metadata.append(FlattenedTensorMetadata(name, size, dtype, start, end, end - start))
        start = end
    return metadata
