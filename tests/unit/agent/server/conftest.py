"""An agent server on a free port, whose rollouts a test makes up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from swerl_agent.episode import Episode, GradedEpisode, TokenSegment
from swerl_agent.grading import Verdict
from swerl_agent.server import AgentServer, AnswerStore, RequestDefaults, RunRequest, read_request, serve

from tests.unit.agent.tasks.rows import sumanth

ENGINE = "http://127.0.0.1:9/v1"


def body(**changes: Any) -> dict[str, Any]:
    """What a trainer sends: the columns of a row beside the wire format's own fields."""
    return {
        "responses_create_params": {"input": []},
        "sampling_params": {"temperature": 0.8, "top_p": 1.0, "top_k": -1, "max_new_tokens": 512, "stop": None},
        "sglang_url": ENGINE,
        "subset": "gym",
        "split": "train",
        **sumanth(),
        **changes,
    }


def episode(**changes: Any) -> Episode:
    """One answer, one observation, one answer that submits."""
    segment = TokenSegment([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 1, 1], [0.0, 0.0, -0.5, 0.0, -0.25, -1.5], prompt_length=2)
    segment.answers = [(0, 2, 3), (1, 4, 6)]
    messages = [("system", "s"), ("user", "u"), ("assistant", "one"), ("user", "seen"), ("assistant", "two")]
    fields: dict[str, Any] = {
        "segments": [segment],
        "messages": [{"role": role, "content": content} for role, content in messages],
        "turns": 2,
        "patch": "diff --git a/x b/x\n",
        "patch_source": "submission",
        "exit_status": "submitted",
        "timings": {"total": 4.0, "model": 2.0, "environment": 1.0},
    }
    return Episode("getmoto__moto-5876", "server", 0, **fields | changes)


SOLVED = GradedEpisode(
    episode(), Verdict("resolved", {"tests_status": {"FAIL_TO_PASS": {"success": ["t"]}}}, duration=4.0)
)
FAILED = GradedEpisode(episode(), Verdict("unresolved"))


class FakeRunner:
    """A runner whose rollouts wait for `go` and end as `outcome` says."""

    def __init__(self) -> None:
        self.outcome: GradedEpisode | Exception = SOLVED
        self.go = asyncio.Event()
        self.go.set()
        self.running, self.most = 0, 0
        self.started: asyncio.Queue[RunRequest] = asyncio.Queue()
        self.cancelled: asyncio.Queue[RunRequest] = asyncio.Queue()
        self.requests: list[RunRequest] = []

    async def run(self, request: RunRequest, on_end: Callable[[Episode], None] | None = None) -> GradedEpisode:
        assert on_end is not None
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        self.started.put_nowait(request)
        on_end(SOLVED.episode)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)  # as a sandbox takes to be deleted
            self.cancelled.put_nowait(request)
            raise
        finally:
            self.running -= 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Client:
    """The server as a trainer sees it."""

    def __init__(self, url: str, http: aiohttp.ClientSession, stop: asyncio.Event) -> None:
        self.url, self.stop, self._http = url, stop, http

    async def run(self, **changes: Any) -> tuple[int, Any]:
        """Status and JSON of one `POST /run`."""
        return await self.post(json.dumps(body(**changes)).encode())

    async def post(self, data: bytes, **headers: str) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"} | headers
        async with self._http.post(f"{self.url}/run", data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str) -> tuple[int, str]:
        async with self._http.get(self.url + path) as answer:
            return answer.status, await answer.text()


Serving = Callable[..., Any]


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def serving(runner: FakeRunner, tmp_path: Path) -> Serving:
    """A context in which the server runs; leaving it is the signal to stop."""

    @asynccontextmanager
    async def started(
        *, grace: float = 5.0, defaults: RequestDefaults | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        read = partial(read_request, defaults=defaults or RequestDefaults())
        server = AgentServer(runner, read, AnswerStore(tmp_path / "results", "org/m"), model="org/m", **options)
        stop, url = asyncio.Event(), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(server, "127.0.0.1", 0, stop=stop, grace=grace, on_listening=url.set_result))
        async with aiohttp.ClientSession() as http:
            yield Client(await url, http, stop)
            stop.set()
            await asyncio.wait_for(task, 20)

    return started
