"""The Ray actor of one training rank: a process that hosts a MegatronTrainer."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from swerl_trainer.location import Location, Place, machine_id
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.environment import cpu_threads
from swerl_trainer.megatron.watchdog import watched

if TYPE_CHECKING:
    from swerl_trainer.checkpoints import FileSum
    from swerl_trainer.megatron.background_save import BackgroundSave, RankPart
    from swerl_trainer.megatron.trainer import MegatronTrainer
    from swerl_trainer.weight_bucket import WeightPart


class TrainRank:
    """Created without a rank, so that ranks are numbered by the actors' nodes; then `begin`, then `run`."""

    def __init__(self) -> None:
        self._rank = -1
        self._trainer: MegatronTrainer | None = None
        self._watched = partial(watched, file=None, seconds=0.0)

    def place(self) -> Place:
        """Machine, Ray node and first accelerator of this actor."""
        context = ray.get_runtime_context()
        accelerators = context.get_accelerator_ids().get("GPU") or ["0"]
        return Place(machine_id(), Location(node=str(context.get_node_id()), device=int(accelerators[0])))

    def endpoint(self) -> tuple[str, int]:
        """Address of this node and a port free on it now."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            services: Any = ray.util  # untyped
            return str(services.get_node_ip_address()), int(probe.getsockname()[1])

    def begin(
        self, config: RankConfig, rank: int, world_size: int, address: str, port: int, ranks_on_node: int
    ) -> None:
        """Join the group as `rank` and load the model. Without CUDA the ranks of a node share its CPUs evenly."""
        import torch
        from swerl_trainer.megatron.trainer import MegatronTrainer

        if torch.cuda.is_available():
            torch.cuda.set_device(0)
        else:
            torch.set_num_threads(cpu_threads(ranks_on_node))
        self._rank = rank
        replace(config.log, ids={**config.log.ids, "rank": rank}).configure(sys.stderr, "WARNING")
        stacks = Path(config.logs) / f"rank-{rank}.stacks.txt" if config.logs else None
        self._watched = partial(watched, file=stacks, seconds=config.watchdog_seconds)
        self._trainer = MegatronTrainer(config, rank=rank, world_size=world_size, address=address, port=port)

    def run(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call `method` of the trainer, or of a part of it as in `sender.release`; only rank 0 sends a result back, the
        others' are equal to it."""
        with self._watched(method):
            result = attrgetter(method)(self._trainer)(*arguments, **keywords)
        return result if self._rank == 0 else None

    def written(self) -> RankPart:
        """See BackgroundSave.written; runs beside `run`."""
        return self._saving().written()

    def complete_save(self, parts: Sequence[RankPart]) -> dict[str, FileSum]:
        """See BackgroundSave.complete; rank 0 only, beside `run`."""
        return self._saving().complete(parts)

    def _saving(self) -> BackgroundSave:
        assert self._trainer is not None
        return self._trainer.saving

    def export_bucket(self, number: int) -> str:
        """See WeightSender.export; every rank has a handle of its own."""
        assert self._trainer is not None
        return self._trainer.sender.export(number)

    def weight_part(self, max_bytes: int, whole: bool) -> WeightPart:
        """See WeightSender.part; every rank has its own."""
        assert self._trainer is not None
        return self._trainer.sender.part(max_bytes, whole=whole)

    def connect(
        self, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float
    ) -> None:
        """See WeightSender.connect."""
        assert self._trainer is not None
        self._trainer.sender.connect(
            address, port, world_size=world_size, group_name=group_name, backend=backend, timeout=timeout
        )

    def disconnect(self, group_name: str) -> None:
        """See WeightSender.close."""
        assert self._trainer is not None
        self._trainer.sender.close(group_name)
