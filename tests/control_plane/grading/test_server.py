"""The agent server with real sandboxes and real grading: what a trainer of another framework gets over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from swerl_agent.episode import HFTokenizer, Prompts, RetryPolicy
from swerl_agent.evaluation import SampleRunner
from swerl_agent.grading import Grader
from swerl_agent.sandbox.lease import owning_lease
from swerl_agent.server import (
    AgentServer,
    AnswerStore,
    GoldPatchRunner,
    ModelRunner,
    RequestDefaults,
    RequestRunner,
    read_request,
    serve,
)
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns
from swerl_api import AgentSpec
from swerl_kube import KubeClient

from tests.control_plane.operator_process import Operator
from tests.scripted_engine import Scripts, block, served

from .test_episode import FIX, SUBMIT, tokenizer
from .test_evaluation import SMALL

__all__ = ["tokenizer"]
JOB = "server-test"
QUICK = RetryPolicy(first_delay=0.01)
GIVES_UP, LONG_RUNNING = "calc__calc-2", "calc__calc-3"  # what the model does with the task under these names


def model(tokenizer: HFTokenizer, started: asyncio.Event | None = None) -> Scripts:
    """Fixes the task, or gives it up, or starts a long command and sets `started`."""

    def answers(routing_key: str) -> list[str]:
        if routing_key.endswith(GIVES_UP):
            return [block("true"), block("true")]
        if started is not None and routing_key.endswith(LONG_RUNNING):
            started.set()
            return [block("sleep 300")]
        return [block(FIX), block(SUBMIT)]

    return Scripts(tokenizer, answers)


@dataclass
class ServerClient:
    """A client of one server."""

    url: str
    http: aiohttp.ClientSession
    task: Task
    stop: asyncio.Event

    async def run(self, engine: str | None, **changes: Any) -> tuple[int, Any]:
        """Status and answer of one `POST /run`."""
        row = {**visible_columns(self.task), **grading_columns(self.task), "subset": "calc", **changes}
        engine_fields = {"sampling_params": {"temperature": 1.0}, "sglang_url": engine and f"{engine}/v1"}
        async with self.http.post(f"{self.url}/run", json={**row, **engine_fields}) as answer:
            return answer.status, await answer.json()


Started = Callable[..., AbstractAsyncContextManager[ServerClient]]


@pytest.fixture
def started(
    operator: Operator,
    client: KubeClient,
    kubeconfig: str,
    namespace: str,
    task: Task,
    tokenizer: HFTokenizer,
    grader: Grader,
    tmp_path: Path,
) -> Started:
    """A running server; leaving the context stops it, and then nothing of it may be left."""

    @asynccontextmanager
    async def go(*, golden: bool = False, grace: float = 60.0) -> AsyncIterator[ServerClient]:
        spec = AgentSpec(context_tokens=200_000, step_limit=2)
        read = partial(read_request, defaults=RequestDefaults(engine_needed=not golden))
        stop, url = asyncio.Event(), asyncio.get_running_loop().create_future()
        async with aiohttp.ClientSession() as http:
            async with owning_lease(namespace, JOB, kubeconfig=kubeconfig) as lease:
                samples = SampleRunner(client, namespace, grader, lease, job=JOB, sandbox=SMALL)
                model_runner = ModelRunner(samples, http, tokenizer, Prompts.default(), spec, retry_policy=QUICK)
                runner: RequestRunner = GoldPatchRunner(grader) if golden else model_runner
                server = AgentServer(runner, read, AnswerStore(tmp_path, "m"), model="m", concurrency=2)
                serving = serve(server, "127.0.0.1", 0, stop=stop, grace=grace, on_listening=url.set_result)
                running = asyncio.create_task(serving)
                yield ServerClient(await url, http, task, stop)
                stop.set()
                await running
            assert not await remaining_objects(client, namespace)

    return go


async def remaining_objects(client: KubeClient, namespace: str) -> list[str]:
    """Sandboxes and Leases of the server."""
    kinds = (("swerl.dev/v1alpha1", "swesandboxes"), ("coordination.k8s.io/v1", "leases"))
    found = [await client.list(*kind, namespace, labels=f"swerl.dev/job={JOB}") for kind in kinds]
    return [item["metadata"]["name"] for listed in found for item in listed]


async def test_fix_is_rewarded_and_none_is_not(started: Started, tokenizer: HFTokenizer, tmp_path: Path) -> None:
    async with started() as trainer, served(model(tokenizer)) as engine:
        (_, solved), (_, failed) = await asyncio.gather(trainer.run(engine), trainer.run(engine, instance_id=GIVES_UP))
    assert (solved["reward"], solved["info"]["exit_status"]) == (1, "Submitted"), solved
    assert solved["metadata"]["eval_report"]["calc__calc-1"]["resolved"]
    assert (failed["reward"], failed["info"]["exit_status"], failed["info"]["verdict"]) == (0, "LimitsExceeded", None)
    assert json.loads((tmp_path / "calc/m/calc__calc-1/calc__calc-1.json").read_text()) == solved
    fix, submission = (item for item in solved["response"]["output"] if "generation_token_ids" in item)
    assert tokenizer.decode(fix["generation_token_ids"][:-1]) == block(FIX)
    assert set(submission["generation_log_probs"]) == {-0.25}
    token_ids = fix["prompt_token_ids"] + fix["generation_token_ids"]
    assert submission["prompt_token_ids"][: len(token_ids)] == token_ids
    assert "min(high" not in json.dumps(solved["messages"][:2]), "the reference fix is for grading alone"


async def test_reference_fix_is_rewarded_without_an_engine(started: Started) -> None:
    async with started(golden=True) as trainer:
        status, answer = await trainer.run(None)
    assert (status, answer["reward"], answer["info"]["exit_status"], answer["messages"]) == (200, 1, "Submitted", [])


async def test_engine_that_is_down_is_no_reward(started: Started) -> None:
    async with started() as trainer:
        status, answer = await trainer.run("http://127.0.0.1:9")
    assert (status, answer["info"]["exit_status"]) == (503, "infrastructure_error")
    assert "EngineError" in answer["error"] and "reward" not in answer


async def test_sandbox_is_deleted_when_its_client_disconnects(
    started: Started, tokenizer: HFTokenizer, client: KubeClient, namespace: str
) -> None:
    command_started = asyncio.Event()
    async with started() as trainer, served(model(tokenizer, command_started)) as engine:
        running = asyncio.create_task(trainer.run(engine, instance_id=LONG_RUNNING))
        async with asyncio.timeout(120):
            await command_started.wait()
            assert len(await remaining_objects(client, namespace)) == 2, "a sandbox and the Lease"
            changes = client.watch("swerl.dev/v1alpha1", "swesandboxes", namespace)
            await anext(changes)
            running.cancel()
            async for change in changes:
                if change.type == "DELETED":
                    break


async def test_server_that_stops_leaves_no_sandbox(started: Started, tokenizer: HFTokenizer) -> None:
    command_started = asyncio.Event()
    async with started(grace=0.5) as trainer, served(model(tokenizer, command_started)) as engine:
        running = asyncio.create_task(trainer.run(engine, instance_id=LONG_RUNNING))
        async with asyncio.timeout(120):
            await command_started.wait()
        trainer.stop.set()
        status, answer = await running
    assert (status, answer["info"]["exit_status"]) == (503, "cancelled")
