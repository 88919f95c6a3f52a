"""The Ray actor of one training rank: a process that hosts a MegatronTrainer.

Guarantees: a call that may wait for other ranks or for engines, from `begin` on, is watched: if it does not end, this
rank's stacks are written. The rank's log in the job's folder has each call but those of single buckets.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from swerl_trainer.location import Location, Place, machine_id
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.environment import cpu_threads
from swerl_trainer.megatron.watchdog import watched
from swerl_trainer.process_log import ProcessLog

if TYPE_CHECKING:
    from swerl_trainer.checkpoints import FileSum
    from swerl_trainer.megatron.background_save import BackgroundSave, RankPart
    from swerl_trainer.megatron.trainer import MegatronTrainer

PER_BUCKET = "sender."  # calls that an update of the weights makes for every bucket

logger = logging.getLogger(__name__)


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
        _configure_log(config, rank)
        stacks = Path(config.logs) / f"rank-{rank}.stacks.txt" if config.logs else None
        self._watched = partial(watched, file=stacks, seconds=config.watchdog_seconds)
        with self._watched("begin"), _logged("begin"):
            self._trainer = MegatronTrainer(config, rank=rank, world_size=world_size, address=address, port=port)

    def run(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Call `method` of the trainer, or of a part of it as in `sender.release`; only rank 0 sends a result back, the
        others' are equal to it."""
        result = self.run_own(method, *arguments, **keywords)
        return result if self._rank == 0 else None

    def run_own(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """The same for a result that is this rank's own."""
        assert self._trainer is not None
        with self._watched(method), _logged(method):
            return attrgetter(method)(self._trainer)(*arguments, **keywords)

    def written(self) -> RankPart:
        """See BackgroundSave.written; runs beside `run`."""
        return self._saving().written()

    def complete_save(self, parts: Sequence[RankPart]) -> dict[str, FileSum]:
        """See BackgroundSave.complete; rank 0 only, beside `run`."""
        return self._saving().complete(parts)

    def _saving(self) -> BackgroundSave:
        assert self._trainer is not None
        return self._trainer.saving


def _configure_log(config: RankConfig, rank: int) -> None:
    """Warnings to standard error, which Ray sends to the driver; the package's own lines to a file."""
    log = config.log_of(rank)
    log.configure(sys.stderr, "WARNING").setLevel("WARNING")
    if config.logs:
        logging.getLogger("swerl_trainer").setLevel(logging.INFO)
        ProcessLog().write_to(Path(config.logs) / f"rank-{rank}.log", log.formatter())


@contextmanager
def _logged(call: str) -> Iterator[None]:
    """A line with the duration of `call`, or with its failure, which the driver reports as an error."""
    began = time.monotonic()
    try:
        yield
    except Exception:
        logger.info("%s failed after %.1f s", call, time.monotonic() - began, exc_info=True)
        raise
    logger.log(
        logging.DEBUG if call.startswith(PER_BUCKET) else logging.INFO, "%s took %.1f s", call, time.monotonic() - began
    )
