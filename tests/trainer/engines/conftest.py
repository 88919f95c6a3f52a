"""A real engine behind a real router, and a training side in this process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import torch
import torch.distributed as dist
from swerl_agent.episode import api_key_headers
from swerl_api.names import API_KEY_VARIABLE
from swerl_kube.logs import LogSettings
from swerl_trainer.engines.handle import LocalEngine
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.location import Location
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.engine_layout import engine_sums, others, sample_names
from swerl_trainer.megatron.hf_folder import begin_folder, building_of, end_folder, write_files, write_index
from swerl_trainer.megatron.tensor_ipc import handle_of
from swerl_trainer.weight_bucket import WeightBucket, WeightPart, WeightSample
from torch.distributed.distributed_c10d import (
    Backend,
    PrefixStore,
    _new_process_group_helper,
    _world,
    rendezvous,
)
from transformers import Qwen3ForCausalLM

HERE = Location("here", 0)
Named = list[tuple[str, torch.Tensor]]
KEY = "key-of-these-engines"
PROMPT = [5, 6, 7, 8, 9, 10, 11, 100, 200, 250]


def log_probs(model: Qwen3ForCausalLM, prompt: list[int], output: list[int]) -> list[float]:
    """Log-probabilities transformers gives to `output` after `prompt`."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + output])).logits[0]
    table = torch.log_softmax(logits.float(), -1)
    return [float(table[len(prompt) - 1 + i, token]) for i, token in enumerate(output)]


class InProcessTrainer:
    """The training side of a weight update: a transformers model in this process, which sends as two ranks do."""

    def __init__(self, folder: Path) -> None:
        self.model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._folder = folder
        self._architecture = read_architecture(folder)
        self._groups: dict[str, dist.ProcessGroup] = {}
        self._shared: torch.Tensor | None = None
        self.damages_next = False  # the last norm of the next transfer
        self.prepared = 0  # parts
        self.before_bucket: Callable[[], None] | None = None  # called once, as the next bucket is sent

    async def weight_endpoint(self, rank: int = 0) -> tuple[str, int]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return "127.0.0.1", probe.getsockname()[1]

    async def connect_engines(
        self,
        rank: int,
        address: str,
        port: int,
        *,
        world_size: int,
        group_name: str,
        backend: str,
        timeout: float,
    ) -> None:
        self._groups[group_name] = await asyncio.to_thread(
            _join, address, port, world_size, group_name, backend, timedelta(seconds=timeout)
        )

    async def weight_parts(self, max_bytes: int = 0, *, whole: bool = True) -> list[WeightPart]:
        named = self._named()
        third = len(named) // 3
        buckets = [bucket_of(named[:third]), bucket_of(named[third : 2 * third]), bucket_of(named[2 * third :])]
        return [WeightPart(0, (buckets[0],)), WeightPart(1, tuple(buckets[1:]))]

    async def prepare_bucket(self, part: WeightPart) -> None:
        self.prepared += 1

    async def send_bucket(self, part: WeightPart, number: int, *, group_name: str) -> None:
        if (call := self.before_bucket) is not None:
            self.before_bucket = None
            call()
        bucket = part.buckets[number]
        flat = flat_of([named for named in self._named() if named[0] in bucket.names])
        if self.damages_next and "model.norm.weight" in bucket.names:
            flat[-1] ^= 1
            self.damages_next = False
        await asyncio.to_thread(dist.broadcast, flat, group=self._groups[group_name], group_src=0)

    async def disconnect_engines(self, rank: int, group_name: str) -> None:
        self._groups.pop(group_name, None)

    async def weight_buckets(self, max_bytes: int = 0) -> list[WeightBucket]:
        return [bucket_of(self._named())]

    async def save_hf(self, folder: Path) -> None:
        building, files = building_of(folder, 0), {"model-00001.safetensors": bucket_of(self._named())}
        begin_folder(building, self._folder)
        write_files(building, files, self._named())
        write_index(building, files)
        end_folder(building, folder)

    async def weight_sample(self, version: int, *, engine_ranks: int, expert_ranks: int = 1) -> WeightSample:
        names = sample_names(self._architecture, version)
        tensors = {name: tensor for name, tensor in self._named() if name in names}
        return WeightSample(others(self._architecture, names), engine_sums(tensors, self._architecture, engine_ranks))

    async def locations(self) -> list[Location]:
        return [HERE]

    async def export_bucket(self, number: int) -> list[str]:
        self._shared = flat_of(self._named())
        return [handle_of(self._shared, (await self.weight_buckets())[number])]

    async def release_bucket(self) -> None:
        self._shared = None

    def _named(self) -> Named:
        return [(name, value.detach().contiguous()) for name, value in self.model.named_parameters()]


def bucket_of(named: Named) -> WeightBucket:
    return WeightBucket(
        names=tuple(name for name, _ in named),
        dtypes=tuple(str(value.dtype).removeprefix("torch.") for _, value in named),
        shapes=tuple(tuple(value.shape) for _, value in named),
        bytes=sum(value.nbytes for _, value in named),
    )


def flat_of(named: Named) -> torch.Tensor:
    return torch.cat([value.reshape(-1).view(torch.uint8) for _, value in named])


def _join(address: str, port: int, world_size: int, name: str, backend: str, timeout: timedelta) -> dist.ProcessGroup:
    store, rank, size = next(rendezvous(f"tcp://{address}:{port}", 0, world_size, timeout=timeout))
    group, _ = _new_process_group_helper(
        size, rank, [], Backend(backend), PrefixStore(name, store), group_name=name, timeout=timeout
    )
    _world.pg_group_ranks[group] = {i: i for i in range(world_size)}
    return group


@dataclass
class RoutedEngine:
    """One engine behind a router, and the model the training side holds."""

    pool: EnginePool
    handle: LocalEngine
    source: InProcessTrainer
    http: aiohttp.ClientSession
    trainer_lock: asyncio.Lock
    watcher: asyncio.Task[None]

    async def generate(self, **settings: object) -> dict[str, object]:
        """One `/generate` through the router."""
        body = {"input_ids": PROMPT, "return_logprob": True, "sampling_params": settings}
        async with self.http.post(
            f"{self.pool.router.url}/generate", json=body, headers={"X-SMG-Routing-Key": "episode"}
        ) as response:
            assert response.status == 200, await response.text()
            result = await response.json()
        return result[0] if isinstance(result, list) else result

    async def distance(self) -> float:
        """Largest difference between the engine's log-probabilities and transformers' on the held model."""
        result = await self.generate(max_new_tokens=16, temperature=1.0, ignore_eos=True)
        actual = [entry[0] for entry in result["meta_info"]["output_token_logprobs"]]
        expected = log_probs(self.source.model, PROMPT, result["output_ids"])
        return max(abs(a - b) for a, b in zip(actual, expected, strict=True))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def routed_engine(
    make_model: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RoutedEngine]:
    """A running engine started from one model while the training side holds another."""
    logs = tmp_path_factory.mktemp("logs")
    log = LogSettings("json", {"job": "demo", "engine": 0})
    settings = ServerSettings(model=str(make_model(0)), dtype="float32", gpus=0, context_tokens=4096, log=log)
    handle = LocalEngine(settings, logs / "engine.log", "127.0.0.1")
    source = InProcessTrainer(make_model(1))
    os.environ[API_KEY_VARIABLE] = KEY
    async with aiohttp.ClientSession(headers=api_key_headers(KEY)) as http:
        router = Router.on("127.0.0.1", http, logs / "router.log", log_settings=LogSettings("json", {"job": "demo"}))
        pool = EnginePool([handle], router, http, probe_seconds=20.0, probe_pause=2.0)
        try:
            await pool.start()
            trainer_lock = asyncio.Lock()
            await pool.attach(source, 0, trainer_lock)
            watcher = asyncio.create_task(pool.watch())
            yield RoutedEngine(pool, handle, source, http, trainer_lock, watcher)
            watcher.cancel()
        finally:
            await pool.close()
            del os.environ[API_KEY_VARIABLE]
