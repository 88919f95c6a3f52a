"""Control calls to one SGLang server (0.5.23): pause, weight update, health.

Guarantees: a call that is refused raises EngineCallError naming the engine, the call and the response, one that is not
answered EngineLost; nothing is retried here, because a partial weight update must not be repeated blindly; a call that
may take long ends when the server answers nothing else meanwhile either; after a call that timed out every further one
fails at once, so a frozen engine holds its callers for one limit only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp
from swerl_trainer.engines.errors import EngineCallError, EngineLost
from swerl_trainer.location import Location
from swerl_trainer.weight_bucket import WeightBucket

PauseMode = Literal["abort", "retract", "in_place"]
ADAPTER = "policy"  # name of the adapter in the engines; a request names it
CALL_TIMEOUT = 600.0  # seconds of a call that reads a whole model, or moves it between host and GPU
CONTROL_TIMEOUT = 60.0  # seconds of a call that moves no weights, which the server answers after the batch it computes
SLOWEST_NETWORK = 32 * 2**20  # bytes per second by which the limit of a bucket grows
LOAD_TIMEOUT = 5.0  # seconds in which an engine says what it does
REQUESTS = ("running", "waiting")
ANSWER_SECONDS = 10.0  # for an engine to answer after the trainer has given a bucket up


@dataclass(frozen=True)
class EngineLoad:
    """What an engine does at one time."""

    running: int  # requests
    waiting: int
    cache: float  # share of its KV cache that requests use, 0 to 1


class EngineClient:
    """The control side of the server at `url`; `ranks` is its tensor-parallel size, `locations` the GPUs of its ranks
    in order when it shares them with the trainer. `control_timeout`: of calls that move no weights, and of a server's
    no answer during others."""

    def __init__(
        self,
        url: str,
        http: aiohttp.ClientSession,
        *,
        ranks: int = 1,
        locations: Sequence[Location] = (),
        control_timeout: float = CONTROL_TIMEOUT,
    ) -> None:
        self.url = url
        self.ranks = ranks
        self.locations = tuple(locations)
        self.asleep = False
        self.pauses = 0  # so far
        self.paused = False
        self._has_adapter = False
        self._frozen = False  # a call timed out
        self._control_timeout = control_timeout
        self._http = http

    async def pause(self, mode: PauseMode) -> None:
        """Stop generating: `retract` keeps running requests and recomputes them, `abort` ends them."""
        self.pauses += 1
        self.paused = True
        await self._control("pause_generation", {"mode": mode})

    async def resume(self) -> None:
        """Continue generating after `pause`."""
        await self._control("continue_generation", {})
        self.paused = False

    def bucket_seconds(self, bucket: WeightBucket) -> float:
        """In which the trainer must have sent a bucket, and in which all must have joined its group."""
        return self._control_timeout + bucket.bytes / SLOWEST_NETWORK

    async def join_update_group(
        self, address: str, port: int, *, offset: int, world_size: int, name: str, backend: str, timeout: float
    ) -> None:
        """Join the trainer's update group with all ranks of this engine, from rank `offset` on. `timeout`: the
        trainer's."""
        await self._long(
            "init_weights_update_group",
            {
                "master_address": address,
                "master_port": port,
                "rank_offset": offset,
                "world_size": world_size,
                "group_name": name,
                "backend": backend,
            },
            timeout + ANSWER_SECONDS,
        )

    async def leave_update_group(self, name: str) -> None:
        """Leave the update group."""
        await self._control("destroy_weights_update_group", {"group_name": name})

    async def begin_update(self) -> None:
        """Open a weight update; weights may be received until `end_update`."""
        await self._control("begin_weight_update", {})

    async def receive_bucket(self, bucket: WeightBucket, *, group: str, version: str, flush: bool) -> None:
        """Receive one flat bucket from rank 0 of `group`; returns when it is loaded."""
        await self._long(
            "update_weights_from_distributed",
            {
                "names": list(bucket.names),
                "dtypes": list(bucket.dtypes),
                "shapes": [list(shape) for shape in bucket.shapes],
                "group_name": group,
                "load_format": "flattened_bucket",
                "weight_version": version,
                "flush_cache": flush,
            },
            self.bucket_seconds(bucket) + ANSWER_SECONDS,
        )

    async def read_bucket(self, handles: Sequence[str], *, version: str, flush: bool) -> None:
        """Load one flat bucket from the devices' memory, by a handle per rank; returns when it is loaded."""
        await self._long(
            "update_weights_from_tensor",
            {
                "serialized_named_tensors": list(handles),
                "load_format": "flattened_bucket",
                "weight_version": version,
                "flush_cache": flush,
            },
        )

    async def load_folder(self, folder: Path, *, version: str, flush: bool) -> None:
        """Load all weights from a folder in Hugging Face format."""
        await self._long(
            "update_weights_from_disk",
            {"model_path": str(folder), "load_format": "auto", "weight_version": version, "flush_cache": flush},
        )

    async def load_adapter(self, folder: Path, *, version: str) -> None:
        """Replace the adapter by the PEFT adapter in `folder`; no request may use the old one."""
        if self._has_adapter:
            await self._long("unload_lora_adapter", {"lora_name": ADAPTER})
        self._has_adapter = False
        await self._long("load_lora_adapter", {"lora_name": ADAPTER, "lora_path": str(folder)})
        self._has_adapter = True
        await self.name_version(version)

    async def name_version(self, version: str) -> None:
        """Call the present weights `version`."""
        await self._control("update_weight_version", {"new_version": version, "abort_all_requests": False})

    async def weight_sums(self, others: Sequence[str]) -> list[dict[str, str]]:
        """The sum of each parameter on each rank, except of those whose name has a part in `others`."""
        request = {"action": "checksum", "skip_tensor_list": list(others), "selector": "target"}
        answer = await self._long("weights_checker", request, 2 * self._control_timeout)
        ranks = sorted(answer.get("ranks", []), key=lambda rank: int(rank["parallelism_info"][0]["tp_rank"]))
        return [dict(rank["checksums"]) for rank in ranks]

    async def end_update(self) -> None:
        """Close the weight update."""
        await self._long("end_weight_update", {}, 2 * self._control_timeout)

    async def sleep(self) -> None:
        """Stop generating and release the GPU memory of weights and cache for the trainer. Running requests are
        recomputed later; new ones wait. GPU only: on CPU this call ends the server."""
        if self.asleep:
            return
        await self.pause("retract")  # the call ends a server that is not idle
        await self._long("release_memory_occupation", {})
        self.asleep = True

    async def wake(self) -> None:
        """Take the GPU memory back; weights are undefined and nothing is generated until the next full update."""
        if not self.asleep:
            return
        await self._long("resume_memory_occupation", {})
        self.asleep = False

    async def info(self) -> dict[str, Any]:
        """`/model_info`: model path, weight version, architecture."""
        return dict(await self._call("GET", "model_info", None, self._control_timeout))

    async def generates(self, timeout: float) -> bool:
        """Whether the server generates a token, or finishes one of another request, within `timeout` seconds."""
        try:
            limit = aiohttp.ClientTimeout(total=timeout)
            async with self._http.get(f"{self.url}/health_generate", timeout=limit) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def load(self, timeout: float) -> EngineLoad | None:
        """What the server does now; None where it does not say so in `timeout` s."""
        try:
            limit = aiohttp.ClientTimeout(total=timeout)
            async with self._http.get(f"{self.url}/v1/loads", params={"include": "core"}, timeout=limit) as response:
                loads = (await response.json())["loads"] if response.status == 200 else []
                running, waiting = (sum(int(load[f"num_{name}_reqs"]) for load in loads) for name in REQUESTS)
                return EngineLoad(running, waiting, max(float(load["token_usage"]) for load in loads))
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError):
            return None

    async def _control(self, call: str, body: dict[str, Any]) -> None:
        """A call that moves no weights."""
        await self._post(call, body, self._control_timeout)

    async def _long(self, call: str, body: dict[str, Any], timeout: float = CALL_TIMEOUT) -> dict[str, Any]:
        """A call that may take long; it ends early when the server answers no other request meanwhile."""
        answering = asyncio.create_task(self._post(call, body, timeout))
        silent = asyncio.create_task(self._unresponsive())
        try:
            await asyncio.wait([answering, silent], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            self._frozen = True
            raise EngineLost(f"engine {self.url}: no answer in {self._control_timeout:g} s, and none to {call}")
        finally:
            answering.cancel()
            silent.cancel()
            await asyncio.gather(answering, silent, return_exceptions=True)

    async def _unresponsive(self) -> None:
        """Return when the server has answered nothing for `control_timeout`."""
        pause = self._control_timeout / 6
        heard = time.monotonic()
        while time.monotonic() - heard < self._control_timeout:
            await asyncio.sleep(pause)
            if await self._answers(pause):
                heard = time.monotonic()

    async def _answers(self, timeout: float) -> bool:
        try:
            async with self._http.get(f"{self.url}/ready", timeout=aiohttp.ClientTimeout(total=timeout)):
                return True
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _post(self, call: str, body: dict[str, Any], timeout: float) -> dict[str, Any]:
        response = await self._call("POST", call, body, timeout)
        answer: dict[str, Any] = response if isinstance(response, dict) else {}
        if answer.get("success") is False:
            reason = answer.get("message") or answer.get("error_message")
            raise EngineCallError(f"engine {self.url}: {call} refused: {reason}")
        return answer

    async def _call(self, method: str, call: str, body: dict[str, Any] | None, timeout: float) -> Any:
        if self._frozen:
            raise EngineLost(f"engine {self.url}: {call} not sent, because the engine answered no earlier call")
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._http.request(method, f"{self.url}/{call}", json=body, timeout=limit) as response:
                if response.status != 200:
                    text = await response.text()
                    raise EngineCallError(f"engine {self.url}: {call} returned {response.status}: {text}")
                return await response.json(content_type=None)
        except TimeoutError as error:
            self._frozen = True
            raise EngineLost(f"engine {self.url}: no response to {call} in {timeout:g} s") from error
        except aiohttp.ClientError as error:
            raise EngineLost(f"engine {self.url}: no response to {call}: {error!r}") from error


async def engine_loads(clients: Sequence[EngineClient]) -> list[EngineLoad]:
    """What those of these engines do that answer."""
    answers = await asyncio.gather(*(client.load(LOAD_TIMEOUT) for client in clients))
    return [load for load in answers if load is not None]


def fullest_cache(loads: Iterable[EngineLoad]) -> float | None:
    """Usage of the fullest KV cache, 0 to 1; None without an engine that answers."""
    return max((load.cache for load in loads), default=None)
