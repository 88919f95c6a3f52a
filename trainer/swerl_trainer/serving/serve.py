"""Keeps the engines of an evaluation.

Guarantees: the router at the head's known port sends requests only to engines that serve; a dead engine is replaced.
Weights of a checkpoint are converted once, to a folder beside the results that appears complete or not at all. Engines
load them from there even after the checkpoint is pruned.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import ray
from swerl_agent.episode import api_key_headers
from swerl_api import EvaluationFile, names
from swerl_trainer.checkpoints import MARKER
from swerl_trainer.child_process import run_child
from swerl_trainer.engines.api_key import api_key
from swerl_trainer.engines.handle import RayEngine
from swerl_trainer.engines.router import Router
from swerl_trainer.engines.server import ServerSettings
from swerl_trainer.engines.static_pool import StaticEnginePool
from swerl_trainer.joining import ExpectedPods, PodJoining
from swerl_trainer.megatron import environment
from swerl_trainer.serving.errors import ServingError
from swerl_trainer.serving.log import log_of

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 6.0  # for the engines to end; a Pod has 10 s from SIGTERM to SIGKILL
LOG_TAIL = 1500  # characters of the conversion's output quoted in an error


@dataclass(frozen=True)
class ServingPaths:
    """The folders of the Ray Pods."""

    model: Path = Path(names.MODEL_PATH)
    output: Path = Path(names.OUTPUT_PATH)


async def serve(file: EvaluationFile, paths: ServingPaths | None = None) -> None:
    """Serve until cancelled. Raises ServingError, PodsMissing, and EngineStartError when an engine does not start at
    first."""
    paths = paths or ServingPaths()
    model = await served_folder(file, paths)
    logs = paths.output / file.folder / "logs"
    async with aiohttp.ClientSession(headers=api_key_headers(api_key())) as http:
        pool = _pool(file, model, logs, http)
        try:
            await _start(pool, _joining(file))
            logger.info("serving %s at %s", model, pool.router.url)
            await pool.watch()
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pool.close(), CLOSE_SECONDS)


async def served_folder(file: EvaluationFile, paths: ServingPaths) -> Path:
    """The folder in Hugging Face format that is served; converted from the checkpoint if need be."""
    if file.checkpoint is None:
        return paths.model
    checkpoint = Path(file.checkpoint)
    folder = paths.output / file.folder / f"model-{checkpoint.name}"
    if folder.is_dir():
        return folder
    if not (checkpoint / MARKER).is_file():
        raise ServingError(
            f"no complete checkpoint at {checkpoint}: it was never written, or was pruned (checkpoint.keepLast)"
        )
    await _convert(checkpoint, paths.model, folder, file.dtype)
    return folder


async def _convert(checkpoint: Path, model: Path, folder: Path, dtype: str) -> None:
    """In a process of its own, so that its memory is free when the engines load."""
    module = "swerl_trainer.megatron.export"
    command = [sys.executable, "-m", module, str(checkpoint), str(model), str(folder), "--dtype", dtype]
    logger.info("converting %s to %s", checkpoint, folder)
    code, output = await run_child(command, environment.cpu_process_environment(), stderr=asyncio.subprocess.STDOUT)
    if code:
        raise RuntimeError(f"converting {checkpoint} ended with code {code}: {output[-LOG_TAIL:]}")


async def _start(pool: StaticEnginePool, joining: PodJoining) -> None:
    """Start the engines; the first failure, also of Pods that do not join in time, ends the wait."""
    tasks = [asyncio.create_task(joining.watch()), asyncio.create_task(pool.start())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()


def _joining(file: EvaluationFile) -> PodJoining:
    rollout = file.spec.rollout
    assert rollout is not None
    expected = [ExpectedPods("engine", names.ENGINE_RESOURCE, rollout.engines)]
    return PodJoining(expected, rollout.join_timeout_seconds, ray.nodes, field="rollout")


def _pool(file: EvaluationFile, model: Path, logs: Path, http: aiohttp.ClientSession) -> StaticEnginePool:
    rollout = file.spec.rollout
    if rollout is None or file.tokenizer is None:
        raise ServingError("the evaluation names an endpoint; it has no engines to serve")
    server = ServerSettings(
        model=str(model),
        tokenizer=file.tokenizer,
        dtype=file.dtype,
        gpus=rollout.gpus_per_engine,
        context_tokens=file.spec.agent.context_tokens,
        arguments=rollout.engine_args,
        log=log_of(file),
    )
    handles = [
        RayEngine(server, number=number, log_folder=logs, resource=names.ENGINE_RESOURCE)
        for number in range(rollout.engines)
    ]
    router = Router.on(
        ray.util.get_node_ip_address(),
        http,
        logs / "router.log",
        port=names.ROUTER_PORT,
        spec=rollout.router,
        log_settings=log_of(file),
    )
    return StaticEnginePool(handles, router, http, "evaluation")
