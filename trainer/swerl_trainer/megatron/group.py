"""All training ranks, as the driver uses them.

Guarantees: every method is one collective of all ranks and returns when all have finished; when one rank fails, the
call raises TrainerError naming the rank, and the group can only be closed.

A weight update, with the HTTP calls made by the engines' client:

    for part in await group.weight_parts():                 # of each rank that sends; once per set of engines
        address, port = await group.weight_endpoint(part.rank)
        await asyncio.gather(
            group.connect_engines(part.rank, address, port, world_size=1 + engine_ranks, group_name="w", ...),
            engines.init_weights_update_group(address, port, rank_offset=1, ...))
    await group.prepare_bucket(part)                        # once per update, between begin and end; all parts together
    for number, bucket in enumerate(part.buckets):
        await asyncio.gather(
            group.send_bucket(part, number, group_name="w"),
            engines.update_weights_from_distributed(bucket.names, bucket.dtypes, bucket.shapes, group_name="w",
                                                    load_format="flattened_bucket"))
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from swerl_api.names import TRAIN_RESOURCE
from swerl_trainer.algorithm.batch import Batch
from swerl_trainer.checkpoints import FileSum
from swerl_trainer.events import event
from swerl_trainer.location import Location
from swerl_trainer.megatron import environment
from swerl_trainer.megatron.config import RankConfig, data_parallel_size
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.rank import TrainRank
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample
from torch import Tensor

logger = logging.getLogger(__name__)

BUCKET_BYTES = 512 * 2**20
BACKGROUND = "background"  # Ray's concurrency group of calls that run beside a step


def resource_per_rank(cpu_ranks: int) -> float:
    """Units of TRAIN_RESOURCE of one rank, where a Pod has a unit per rank: as few as keep a Pod with `cpu_ranks` ranks
    from getting another, of a Pod that has not joined yet. (On GPUs a rank's own GPU does.)

    The rest of the units is for tasks on the ranks' Pods, which check the GPUs and the files of checkpoints.
    """
    return round((cpu_ranks + 0.1) / (cpu_ranks + 1), 4)  # Ray counts in parts of 10,000


class TrainGroup:
    """All training ranks behind one asynchronous façade."""

    def __init__(self, ranks: Sequence[Any], *, watchdog_seconds: float | None = None, logs: str = "") -> None:
        """A call that takes longer than `watchdog_seconds` is logged, with `logs`, where the ranks write stacks; a call
        that loads or completes files may take any time."""
        self.stalls = 0  # calls that took longer, counted again each time the limit passes
        self._watchdog_seconds = watchdog_seconds
        self._logs = logs
        self._ranks = list(ranks)
        self._locations: list[Location] = []

    @classmethod
    async def start(
        cls,
        config: RankConfig,
        *,
        ranks: int,
        gpus_per_rank: float = 0.0,
        cpus_per_rank: float = 1.0,
        shares_gpu: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> TrainGroup:
        """Create `ranks` actors on nodes with the custom resource `train`, join them in one process group, build the
        model and load `config.model`. `shares_gpu`: engines use the same GPUs in turn. `environ` is added to the
        ranks' environment.

        Raises LayoutError before anything starts, TrainerError when a rank fails; then no actor keeps running.
        """
        data_parallel_size(config.trainer, ranks)
        device = environment.cuda(shares_gpu) if gpus_per_rank else environment.CPU
        remote: Any = ray.remote  # its types lack this argument
        actor = remote(concurrency_groups={BACKGROUND: 1})(TrainRank).options(
            num_cpus=cpus_per_rank,
            num_gpus=gpus_per_rank,
            resources={TRAIN_RESOURCE: resource_per_rank(config.trainer.cpu_ranks)},
            scheduling_strategy="SPREAD",
            max_restarts=0,
            runtime_env={"env_vars": {**device, **(environ or {})}},
        )
        actors = [actor.remote() for _ in range(ranks)]
        group = cls(actors, watchdog_seconds=config.watchdog_seconds, logs=config.logs)
        try:
            await group._begin(config)
        except BaseException:
            await group.close()
            raise
        return group

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self._ranks)

    async def train_step(self, batch: Batch) -> dict[str, float]:
        """One pass over `batch` in `algorithm.minibatches` optimiser steps; the metrics of `metrics.METRICS`.

        An empty batch changes nothing and returns only counts.
        """
        metrics: dict[str, float] = await self._on_all_ranks("train_step", ray.put(batch))
        return metrics

    async def trace_next_step(self, folder: Path) -> None:
        """Write a profiler trace of the next `train_step` to `folder`, a file per rank."""
        await self._on_all_ranks("trace_next_step", str(folder))

    async def log_probs(self, batch: Batch, *, reference: bool = False) -> list[Tensor]:
        """Log-probability of each token given those before it: one float32 tensor per sequence, token-aligned, 0 where
        the mask is 0. With `reference`, of the frozen model that `config.model` holds (kept when klCoef > 0)."""
        values: list[Tensor] = await self._on_all_ranks("log_probs", ray.put(batch), reference=reference)
        return values

    async def set_learning_rate(self, lr: float) -> None:
        """Learning rate of the next step on."""
        await self._on_all_ranks("set_learning_rate", lr)

    async def begin_save(self, folder: Path) -> None:
        """Start writing weights, optimizer and RNG to `folder`, which all ranks reach; see `driver.saver`. Steps may
        follow as soon as this returns."""
        await self._on_all_ranks("begin_save", str(folder))

    async def complete_save(self) -> dict[str, FileSum]:
        """Wait for the files of the last `begin_save`, beside other calls; the sums of all of them."""
        calls = (rank.written.options(concurrency_group=BACKGROUND).remote() for rank in self._ranks)
        parts = await self._all([*calls], limited=False)
        complete = self._ranks[0].complete_save.options(concurrency_group=BACKGROUND).remote(parts)
        files: dict[str, FileSum] = (await self._all([complete], limited=False))[0]
        return files

    async def load(self, folder: Path) -> None:
        """Continue exactly where `save` wrote `folder`, under this or another layout."""
        await self._all([rank.run.remote("load", str(folder)) for rank in self._ranks], limited=False)

    async def save_hf(self, folder: Path) -> None:
        """Write the weights in Hugging Face format, with configuration and tokenizer."""
        await self._on_all_ranks("save_hf", str(folder))

    async def save_adapter(self, folder: Path) -> None:
        """Write the adapter in PEFT's format to `folder`, which the engines reach."""
        await self._on_all_ranks("save_adapter", str(folder))

    async def weight_endpoint(self, rank: int = 0) -> tuple[str, int]:
        """Address of the rank's node and a port free there, for a group's rendezvous."""
        address, port = (await self._all([self._ranks[rank].endpoint.remote()], ranks=[rank]))[0]
        return str(address), int(port)

    async def connect_engines(
        self, rank: int, address: str, port: int, *, world_size: int, group_name: str, backend: str, timeout: float
    ) -> None:
        """Let `rank` join an update group as the group's rank 0; returns when `world_size` members have joined.
        `timeout`: seconds for that, and for each bucket that it sends."""
        member = {"world_size": world_size, "group_name": group_name, "backend": backend, "timeout": timeout}
        await self._on_rank(rank, "sender.connect", address, port, **member)

    async def weight_parts(self, max_bytes: int = BUCKET_BYTES, *, whole: bool = True) -> list[WeightPart]:
        """What each rank with a part of its own sends, the same for every update of the job; unless `whole`, without
        the weights that have no adapter in a model with adapters."""
        calls = (rank.run_own.remote("sender.part", max_bytes, whole=whole) for rank in self._ranks)
        parts: list[WeightPart] = await self._all([*calls])
        return [part for part in parts if part.buckets]

    async def prepare_bucket(self, part: WeightPart) -> None:
        """Gather the first bucket of `part` on its rank."""
        await self._with_helpers(part, 0, "sender.prepare", 0)

    async def send_bucket(self, part: WeightPart, number: int, *, group_name: str) -> None:
        """Broadcast a bucket of `part` to the update group, and gather the next one meanwhile."""
        await self._with_helpers(part, number + 1, "sender.send", number, group_name)

    async def _with_helpers(self, part: WeightPart, gathered: int, method: str, *arguments: Any) -> None:
        """Call `method` on the part's rank, which gathers the bucket `gathered` within it."""
        helpers = part.helpers if gathered < part.shared else ()
        calls = [self._ranks[part.rank].run.remote(method, *arguments)]
        calls += [self._ranks[helper].run.remote("sender.help", gathered) for helper in helpers]
        await self._all(calls, ranks=[part.rank, *helpers])

    async def weight_buckets(self, max_bytes: int = BUCKET_BYTES) -> list[WeightBucket]:
        """The buckets of the whole model for `export_bucket`, in order, the same for every update of the job."""
        buckets: list[WeightBucket] = await self._on_all_ranks("sender.metadata", max_bytes)
        return buckets

    async def locations(self) -> list[Location]:
        """Where each rank computes, in rank order."""
        return self._locations

    async def export_bucket(self, number: int) -> list[str]:
        """Gather bucket `number` of the last `weight_buckets` on every rank's GPU; a handle per rank, with which an
        engine on the same GPU reads it until the next bucket or `release_bucket`."""
        handles: list[str] = await self._all([rank.run_own.remote("sender.export", number) for rank in self._ranks])
        return handles

    async def release_bucket(self) -> None:
        """Free the bucket that was exported last."""
        await self._on_all_ranks("sender.release")

    async def weight_sample(self, version: int, *, engine_ranks: int, expert_ranks: int = 1) -> WeightSample:
        """Sums of some weights as engines with these ranks hold them, see `engine_sums`; `version` chooses which."""
        sample: WeightSample = await self._on_all_ranks("sender.sample", version, engine_ranks, expert_ranks)
        return sample

    async def release_memory(self) -> None:
        """Free all GPU memory except weights and optimizer, for engines on the same GPUs, until the next step."""
        await self._on_all_ranks("release_memory")

    async def disconnect_engines(self, rank: int, group_name: str) -> None:
        """Let `rank` leave the update group; no-op when it is not connected."""
        await self._on_rank(rank, "sender.close", group_name)

    async def close(self) -> None:
        """End the actors."""
        for rank in self._ranks:
            ray.kill(rank, no_restart=True)
        self._ranks = []

    async def _begin(self, config: RankConfig) -> None:
        places = await self._all([rank.place.remote() for rank in self._ranks])
        placed = sorted(zip(places, self._ranks, strict=True), key=lambda pair: pair[0])
        self._locations, self._ranks = [place.location for place, _ in placed], [rank for _, rank in placed]
        address, port = await self.weight_endpoint()
        world = len(self._ranks)
        neighbours = Counter(location.node for location in self._locations)
        begun = [
            rank.begin.remote(config, number, world, address, port, neighbours[location.node])
            for number, (location, rank) in enumerate(zip(self._locations, self._ranks, strict=True))
        ]
        await self._all(begun, limited=False)

    async def _on_all_ranks(self, method: str, *arguments: Any, **keywords: Any) -> Any:
        """Rank 0's result of calling `method` on every rank."""
        return (await self._all([rank.run.remote(method, *arguments, **keywords) for rank in self._ranks]))[0]

    async def _on_rank(self, rank: int, method: str, *arguments: Any, **keywords: Any) -> None:
        """Call `method` on one rank alone."""
        await self._all([self._ranks[rank].run.remote(method, *arguments, **keywords)], ranks=[rank])

    async def _all(
        self, calls: Sequence[Awaitable[Any]], *, ranks: Sequence[int] = (), limited: bool = True
    ) -> list[Any]:
        """Results in order; the first failure is raised at once, because other ranks may wait for the failed one.

        `ranks`: those that are called, by default all. `limited`: a call that takes longer than the watchdog's limit is
        reported.
        """
        ranks = ranks or range(len(calls))
        tasks = [asyncio.ensure_future(_result(call)) for call in calls]
        began, limit = time.monotonic(), self._watchdog_seconds if limited else None
        while True:
            done, pending = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_EXCEPTION)
            if not pending or any(task.exception() for task in done):
                break
            self._report_stall([rank for rank, task in zip(ranks, tasks, strict=True) if task in pending], began)
        for rank, task in zip(ranks, tasks, strict=True):
            if task in done and (error := task.exception()) is not None:
                for waiting in pending:
                    waiting.cancel()
                cause = getattr(error, "cause", None) or error
                if isinstance(cause, TrainerError):
                    raise cause from error
                raise TrainerError(f"training rank {rank} failed: {_described(cause, error)}") from error
        return [task.result() for task in tasks]

    def _report_stall(self, numbers: Sequence[int], began: float) -> None:
        self.stalls += 1
        logger.warning(
            "a call to the training ranks has run for %.0f s; %s have not finished; stacks of all ranks: %s/rank-*",
            *(time.monotonic() - began, f"ranks {', '.join(map(str, numbers))}", self._logs or "(no folder)"),
            extra=event("RanksStalled"),
        )


def _described(cause: BaseException, error: BaseException) -> str:
    """The failure in words; an exception without a message, such as a bare assertion, by its location."""
    name = type(cause).__name__
    if str(cause).strip():
        return f"{name}: {cause}"
    frames = [line.strip() for line in str(error).splitlines() if line.lstrip().startswith("File ")]
    return f"{name} at {frames[-1]}" if frames else name


async def _result(call: Awaitable[Any]) -> Any:
    return await call
