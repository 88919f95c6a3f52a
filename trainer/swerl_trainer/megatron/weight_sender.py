"""The training side of a weight update. Each rank broadcasts flat buckets of its own part of the weights to engines;
for an engine on its own GPU it exports buckets of the whole model.

Guarantees: a bucket's bytes are laid out as SGLang's `flattened_bucket` load format expects them, in the order of its
metadata; a group that could not be joined completely is not kept, nor is one whose members take no bucket in time.
"""

from __future__ import annotations

import importlib
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from swerl_api.addresses import url_host
from swerl_trainer.megatron.errors import WeightTransferError
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample

if TYPE_CHECKING:
    from swerl_trainer.megatron.architecture import Architecture
    from swerl_trainer.megatron.device import Device
    from swerl_trainer.megatron.lora import Adapters
    from swerl_trainer.megatron.phases import Phases, RankPhase
    from torch import Tensor


NCCL_ERRORS = "TORCH_NCCL_ASYNC_ERROR_HANDLING"  # 0: the process goes on after an error or abort of its group
POLL = 0.001  # seconds between two looks at a broadcast on the GPU


@dataclass(frozen=True)
class UpdateGroup:
    """A process group of this rank and engines."""

    group: Any
    backend: str
    timeout: float  # seconds of a broadcast


class WeightSender:
    """One rank's side. Every rank takes part in `export`; those with a part connect, prepare and send on their own."""

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
        self._groups: dict[str, UpdateGroup] = {}
        self._buckets: list[WeightBucket] = []
        self._own: list[WeightBucket] = []
        self._shared_buckets: list[WeightBucket] = []
        self._ready: tuple[int, Tensor] | None = None  # a bucket's number and content
        self._shared: Tensor | None = None

    def connect(
        self, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float
    ) -> None:
        """Join `group_name` as its rank 0, waiting for the other `world_size - 1`; replaces a group of that name.

        Raises WeightTransferError when they do not come within `timeout` seconds, which later bounds each broadcast.
        """
        self.close(group_name)
        try:
            group = _join_group(
                f"tcp://{url_host(address)}:{port}", world_size, group_name, backend, timedelta(seconds=timeout)
            )
            self._groups[group_name] = UpdateGroup(group, backend, timeout)
        except Exception as error:
            raise WeightTransferError(
                f"update group {group_name} at {address}:{port} did not reach {world_size} members "
                f"in {timeout:.0f} s: {error}"
            ) from error

    def metadata(self, max_bytes: int, *, whole: bool = True) -> list[WeightBucket]:
        """The buckets of a transfer by `export`, of the whole model; limits as of `part`."""
        from swerl_trainer.megatron.conversion import hf_shapes
        from swerl_trainer.megatron.weight_part import divided

        names = [name for name in hf_shapes(self._architecture) if whole or self._changes(name)]
        self._buckets = divided(names, self._model, self._architecture, max_bytes)
        return self._buckets

    def part(self, max_bytes: int, *, whole: bool = True) -> WeightPart:
        """What this rank sends, the same for every update: in buckets of at most `max_bytes` unless one tensor alone is
        larger; unless `whole`, without the weights that have no adapter in a model with adapters."""
        import torch.distributed as dist
        from swerl_trainer.megatron.weight_part import divided, expert_names, helped_names, leads, replica

        self._shared_buckets, experts = (
            divided([n for n in names if whole or self._changes(n)], self._model, self._architecture, max_bytes)
            for names in (helped_names(self._architecture), expert_names(self._architecture))
        )
        shared = self._shared_buckets if leads() else []
        self._own = [*shared, *experts]
        return WeightPart(dist.get_rank(), tuple(self._own), len(shared), tuple(replica()[1:]) if leads() else ())

    def prepare(self, number: int) -> None:
        """Gather bucket `number` of this rank's part, for `send`; `help` on its helpers if they share it."""
        self._ready = (number, self._flat(self._own[number]))

    def help(self, number: int) -> None:
        """Take part in gathering the bucket `number` of the shared ones for the rank that sends it."""
        from swerl_trainer.megatron.weight_part import part_weights

        with self._phases.during("update"), self._device.active():
            names = self._shared_buckets[number].names
            deque(part_weights(self._model, self._architecture, names, self._adapters), maxlen=0)

    def send(self, number: int, group_name: str) -> None:
        """Broadcast the bucket that is prepared, and prepare the next one meanwhile. Raises WeightTransferError when
        not every engine takes it within the group's time limit."""
        try:
            try:
                sending = self._begin_broadcast(number, group_name)
            finally:  # helpers wait in its collectives
                if number + 1 < len(self._own):
                    self.prepare(number + 1)
            self._complete(sending, group_name)
        except RuntimeError as error:
            self.close(group_name)
            raise WeightTransferError(f"bucket {number} did not reach every engine of {group_name}: {error}") from error

    def _begin_broadcast(self, number: int, group_name: str) -> Any:
        import torch.distributed as dist

        prepared, self._ready = self._ready, None
        group = self._groups.get(group_name)
        if group is None or prepared is None or prepared[0] != number:
            raise WeightTransferError(f"bucket {number} is not prepared, or {group_name} is not connected")
        return dist.broadcast(prepared[1], src=0, group=group.group, async_op=True)

    def _complete(self, sending: Any, group_name: str) -> None:
        """Wait for a broadcast within the group's time limit, which gloo's `wait` has by itself."""
        import torch

        group, began = self._groups[group_name], time.monotonic()
        while group.backend == "nccl" and not sending.is_completed():
            if time.monotonic() - began > group.timeout:
                _abort(self._groups.pop(group_name).group)
                raise WeightTransferError(f"no end after {group.timeout:.0f} s; the group is aborted")
            time.sleep(POLL)
        sending.wait()
        if self._device.cuda:
            torch.cuda.synchronize()

    def _flat(self, bucket: WeightBucket) -> Tensor:
        """The content of a bucket of this rank's part, uint8 [bytes]."""
        from swerl_trainer.megatron.weight_part import part_weights

        return self._filled(bucket, part_weights(self._model, self._architecture, bucket.names, self._adapters))

    def _filled(
        self, bucket: WeightBucket, tensors: Iterable[tuple[str, Tensor]], phase: RankPhase = "update"
    ) -> Tensor:
        """The content of `bucket`, uint8 [bytes]; beside it, one of its `tensors` at a time."""
        import torch

        with self._phases.during(phase), self._device.active():
            flat = torch.empty(bucket.bytes, dtype=torch.uint8, device=self._device.torch)
            start = 0
            for _, tensor in tensors:
                flat[start : start + tensor.nbytes] = tensor.detach().contiguous().flatten().view(torch.uint8)
                start += tensor.nbytes
            return flat

    def _changes(self, name: str) -> bool:
        """Whether engines need the weight `name`: of a model with adapters they have read all others."""
        return self._adapters is None or bool(self._adapters.factors_of(name))

    def export(self, number: int) -> str:
        """Gather bucket `number` of the last `metadata` on this rank's device; its handle, valid until the next
        `export` or `release`."""
        from swerl_trainer.megatron.tensor_ipc import handle_of

        self._shared = self._gather(number)
        return handle_of(self._shared, self._buckets[number])

    def release(self) -> None:
        """Give up the bucket shared last; the engines have loaded it."""
        self._shared = None
        if self._device.cuda:
            import torch

            cuda: Any = torch.cuda  # untyped
            cuda.ipc_collect()

    def sample(self, version: int, engine_ranks: int, expert_ranks: int = 1) -> WeightSample:
        """See `TrainGroup.weight_sample`. A collective of all ranks: each stage sums its own tensors."""
        from swerl_trainer.megatron.weight_sample import adapter_sample, weight_sample

        with self._phases.during("update"), self._device.active():
            if self._adapters and self._adapters.lora.update == "adapter":
                return adapter_sample(self._model, self._architecture, self._adapters, version, engine_ranks)
            return weight_sample(self._model, self._architecture, self._adapters, version, engine_ranks, expert_ranks)

    def _gather(self, number: int) -> Tensor:
        """Bucket `number` of the whole model, uint8 [bytes], on this rank's device; a collective of all ranks.

        Here stages do not pass handles of their own parts: an engine needs the layers of every stage, but sees only its
        own GPUs (`LocalEngine.start`), and a handle is valid on one node. Each of its ranks needs whole tensors,
        because SGLang's loader takes its shard from them. So every GPU gets every bucket, one tensor at a time.
        """
        from swerl_trainer.megatron.model import export_weights

        bucket = self._buckets[number]
        tensors = export_weights(self._model, self._architecture, bucket.names, self._adapters)
        return self._filled(bucket, tensors, phase="switch")

    def close(self, group_name: str) -> None:
        """Leave the group; no-op when it is not connected."""
        import torch.distributed as dist

        self._ready = None
        group = self._groups.pop(group_name, None)
        if group is not None:
            dist.destroy_process_group(group.group)


def _abort(group: Any) -> None:
    """End the group and what it has on the GPU."""
    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")
    c10d._abort_process_group(group)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _join_group(init_method: str, world_size: int, group_name: str, backend: str, timeout: timedelta) -> Any:
    """A second process group, created as SGLang's `init_custom_process_group` makes it: torch's own
    `new_group` would only take members of the default group."""
    import torch.distributed as dist

    c10d: Any = importlib.import_module("torch.distributed.distributed_c10d")  # what it needs is not torch's typed face

    store, rank, size = next(c10d.rendezvous(init_method, 0, world_size, timeout=timeout))
    store.set_timeout(timeout)
    with _environment(NCCL_ERRORS, "0"):
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
