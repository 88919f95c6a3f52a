"""The training side of a weight update: rank 0 broadcasts flat buckets to the engines' update group, or every rank
exports them to the engine on its own GPU.

Guarantees: a bucket's bytes are laid out as SGLang's `flattened_bucket` load format expects them, in the order of its
metadata; a group that could not be joined completely is not kept.
"""

from __future__ import annotations

import importlib
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from swerl_api.addresses import url_host
from swerl_trainer.megatron.errors import WeightTransferError
from swerl_trainer.weight_bucket import WeightBucket, WeightSample

if TYPE_CHECKING:
    from swerl_trainer.megatron.architecture import Architecture
    from swerl_trainer.megatron.device import Device
    from swerl_trainer.megatron.lora import Adapters
    from swerl_trainer.megatron.phases import Phases
    from torch import Tensor


class WeightSender:
    """One rank's part. Every rank takes part in `broadcast` and `export`; only rank 0 calls `connect` and `close`."""

    def __init__(
        self,
        model: Any,
        architecture: Architecture,
        device: Device,
        phases: Phases,
        adapters: Adapters | None = None,
    ) -> None:
        self._phases = phases
        self._model = model
        self._adapters = adapters
        self._architecture = architecture
        self._device = device
        self._groups: dict[str, Any] = {}
        self._buckets: list[WeightBucket] = []
        self._shared: Tensor | None = None

    def connect(
        self, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float
    ) -> None:
        """Join `group_name` as its rank 0, waiting for the other `world_size - 1`; replaces a group of that name.

        Raises WeightTransferError when they do not come within `timeout` seconds.
        """
        self.close(group_name)
        try:
            self._groups[group_name] = _join_group(
                f"tcp://{url_host(address)}:{port}", world_size, group_name, backend, timedelta(seconds=timeout)
            )
        except Exception as error:
            raise WeightTransferError(
                f"update group {group_name} at {address}:{port} did not reach {world_size} members "
                f"in {timeout:.0f} s: {error}"
            ) from error

    def metadata(self, max_bytes: int, *, whole: bool = True) -> list[WeightBucket]:
        """The buckets of one transfer, each at most `max_bytes` unless one tensor alone is larger; unless `whole`,
        without the weights that training never changes."""
        from swerl_trainer.megatron.conversion import dtype_of, hf_shapes

        weights = next(iter(self._model.parameters())).dtype
        buckets: list[list[tuple[str, str, tuple[int, ...], int]]] = [[]]
        for name, shape in hf_shapes(self._architecture).items():
            if not whole and not self._changes(name):
                continue
            dtype = dtype_of(name, weights)
            size = dtype.itemsize * math.prod(shape)
            if buckets[-1] and sum(b for *_, b in buckets[-1]) + size > max_bytes:
                buckets.append([])
            buckets[-1].append((name, str(dtype).removeprefix("torch."), shape, size))
        self._buckets = [
            WeightBucket(names=names, dtypes=dtypes, shapes=shapes, bytes=sum(sizes))
            for names, dtypes, shapes, sizes in (zip(*bucket, strict=True) for bucket in buckets)
        ]
        return self._buckets

    def _changes(self, name: str) -> bool:
        """Whether training changes the weight `name`."""
        from swerl_trainer.megatron.conversion import ROUTER_BIAS

        return bool(self._adapters.factors_of(name)) if self._adapters else not name.endswith(ROUTER_BIAS)

    def broadcast(self, number: int, group_name: str) -> None:
        """Gather bucket `number` of the last `metadata` and, on rank 0, broadcast it."""
        import torch
        import torch.distributed as dist

        flat = self._gather(number, keep=dist.get_rank() == 0)
        if flat is None:
            return
        group = self._groups.get(group_name)
        if group is None:
            raise WeightTransferError(f"update group {group_name} is not connected: call connect_engines first")
        try:
            dist.broadcast(flat, src=0, group=group)
            if self._device.cuda:
                torch.cuda.synchronize()
        except RuntimeError as error:
            self.close(group_name)
            raise WeightTransferError(f"bucket {number} did not reach every engine of {group_name}: {error}") from error

    def export(self, number: int) -> str:
        """Gather bucket `number` of the last `metadata` on this rank's device; its handle, valid until the next
        `export` or `release`."""
        from swerl_trainer.megatron.tensor_ipc import handle_of

        self._shared = self._gather(number, keep=True)
        assert self._shared is not None
        return handle_of(self._shared, self._buckets[number])

    def release(self) -> None:
        """Give up the bucket shared last; the engines have loaded it."""
        self._shared = None
        if self._device.cuda:
            import torch

            cuda: Any = torch.cuda  # untyped
            cuda.ipc_collect()

    def sample(self, version: int, engine_ranks: int) -> WeightSample:
        """See `TrainGroup.weight_sample`; empty on other ranks than 0. Collective."""
        import torch.distributed as dist
        from swerl_trainer.megatron.engine_layout import engine_sums, others, sample_names
        from swerl_trainer.megatron.model import export_weights

        names = sample_names(self._architecture, version)
        with self._phases.during("update"), self._device.active():
            exported = export_weights(self._model, self._architecture, names, self._adapters)
            tensors = {name: tensor.detach() for name, tensor in exported if dist.get_rank() == 0}
            sums = engine_sums(tensors, self._architecture, engine_ranks) if tensors else ()
        return WeightSample(others(self._architecture, names), sums)

    def _gather(self, number: int, *, keep: bool) -> Tensor | None:
        """Bucket `number` as uint8 [bytes] when `keep`; a collective of all tensor- and pipeline-parallel ranks."""
        import torch
        from swerl_trainer.megatron.model import export_weights

        pieces, names = [], self._buckets[number].names
        with self._phases.during("update"), self._device.active():
            for _, tensor in export_weights(self._model, self._architecture, names, self._adapters):
                if keep:
                    pieces.append(tensor.detach().contiguous().flatten().view(torch.uint8))
            return torch.cat(pieces) if keep else None

    def close(self, group_name: str) -> None:
        """Leave the group; no-op when it is not connected."""
        import torch.distributed as dist

        group = self._groups.pop(group_name, None)
        if group is not None:
            dist.destroy_process_group(group)


def _join_group(init_method: str, world_size: int, group_name: str, backend: str, timeout: timedelta) -> Any:
    """A second process group, created as SGLang's `init_custom_process_group` makes it: torch's own
    `new_group` would only take members of the default group."""
    import torch.distributed as dist

    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")  # what it needs is not torch's typed face

    store, rank, size = next(c10d.rendezvous(init_method, 0, world_size, timeout=timeout))
    store.set_timeout(timeout)
    group, _ = c10d._new_process_group_helper(
        size,
        rank,
        [],
        dist.Backend(backend),
        c10d.PrefixStore(group_name, store),
        group_name=group_name,
        timeout=timeout,
    )
    c10d._world.pg_group_ranks[group] = {member: member for member in range(size)}
    return group
