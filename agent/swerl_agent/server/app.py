"""The HTTP application: `POST /run`, `GET /health`, `GET /metrics`.

Guarantees: at most `concurrency` rollouts at once, further requests wait in line; a client that goes away takes its
rollout along; what infrastructure kept from being graded is answered 503, never with a reward; what an episode did
that got no answer is kept; after `drain` no rollout is left.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from swerl_kube import KubeError

from swerl_agent.episode import (
    INFRASTRUCTURE_ERROR,
    PROMPT_FAILED,
    Episode,
    GradedEpisode,
    PromptError,
    written_on_exit,
)
from swerl_agent.grading import GradingError
from swerl_agent.sandbox import SandboxError
from swerl_agent.storage import finish_in_thread

from .access import ServerAccess, access_middleware
from .answer import answer
from .answer_store import AnswerStore
from .metrics import ServerMetrics
from .request import InvalidRequest, RunRequest
from .runner import RequestRunner

log = logging.getLogger(__name__)

MAX_REQUEST = 64 << 20  # bytes; rows hold patches, scripts and long lists of tests
CLEANING = 30.0  # seconds for the sandboxes of cancelled rollouts; what is left after goes with the Lease
CANCELLED = "cancelled"


class RolloutLost(Exception):
    """The infrastructure ended a rollout; the message says how."""


class AgentServer:
    """Answers requests with the rollouts of `runner`.

    `read` parses the body of a request, or raises InvalidRequest.
    """

    def __init__(
        self,
        runner: RequestRunner,
        read: Callable[[bytes], RunRequest],
        answers: AnswerStore,
        *,
        model: str,
        concurrency: int = 16,
        skip_if_exists: bool = False,
        access: ServerAccess | None = None,
    ) -> None:
        self._runner, self._read, self._answers = runner, read, answers
        self._model, self._skip = model, skip_if_exists
        self._slots = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[bytes]] = set()
        self._closing = False
        self.metrics = ServerMetrics()
        self.application = web.Application(
            client_max_size=MAX_REQUEST, middlewares=[access_middleware(access or ServerAccess(), _refused_access)]
        )
        self.application.router.add_post("/run", self.run)
        self.application.router.add_get("/health", self.health)
        self.application.router.add_get("/metrics", self.scrape)

    async def run(self, http: web.Request) -> web.Response:
        """200 with the reward of one rollout; 400: invalid request, 503: infrastructure failure, 500: our own."""
        data = await http.read()
        if self._closing:
            return _refusal(503, "the server is stopping; ask another one", CANCELLED)
        task = asyncio.create_task(self._rollout(data))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait([task])  # not awaited itself: who goes away here leaves it time to clear up
        except asyncio.CancelledError:
            task.cancel()
            raise
        return _outcome(task)

    async def health(self, http: web.Request) -> web.Response:
        """200 while requests are taken, 503 when the server is stopping."""
        status = 503 if self._closing else 200
        return web.json_response({"status": "stopping" if self._closing else "ok"}, status=status)

    async def scrape(self, http: web.Request) -> web.Response:
        """Prometheus metrics."""
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(self.metrics.registry), headers=headers)

    async def drain(self, grace: float) -> None:
        """Refuse new requests, wait for rollouts `grace` seconds, and cancel the others."""
        self._closing = True
        if self._running:
            _, unfinished = await asyncio.wait(self._running, timeout=grace)
            for task in unfinished:
                if not task.cancelling():  # what is cancelled deletes its sandbox, and must not be kept from it
                    task.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=CLEANING)

    async def _rollout(self, data: bytes) -> bytes:
        """The body of the answer; raises InvalidRequest and RolloutLost."""
        request = await asyncio.to_thread(self._read, data)
        if self._skip and (known := await asyncio.to_thread(self._answers.read, request)):
            return known
        with self.metrics.waiting.track_inprogress():
            await self._slots.acquire()
        try:
            with self.metrics.in_flight.track_inprogress(), self.metrics.seconds.time():
                return await self._made(request)
        finally:
            self._slots.release()

    async def _made(self, request: RunRequest) -> bytes:
        async with written_on_exit(partial(self._answers.write_unanswered, request)) as ended:
            graded = await self._counted(request, ended.append)
            ended.clear()
            return await finish_in_thread(self._kept, request, graded)

    async def _counted(self, request: RunRequest, on_end: Callable[[Episode], None]) -> GradedEpisode:
        status = "error"
        try:
            graded = await self._run(request, on_end)
            status = graded.episode.exit_status
            return graded
        except asyncio.CancelledError:
            status = CANCELLED
            raise
        except RolloutLost:
            status = INFRASTRUCTURE_ERROR
            raise
        except PromptError:
            status = PROMPT_FAILED
            raise
        finally:
            self.metrics.runs.labels(status).inc()

    async def _run(self, request: RunRequest, on_end: Callable[[Episode], None]) -> GradedEpisode:
        try:
            graded = await self._runner.run(request, on_end)
        except (GradingError, KubeError, SandboxError) as error:
            raise RolloutLost(f"{type(error).__name__}: {error}") from error
        if graded.episode.exit_status == PROMPT_FAILED:
            raise PromptError(graded.loss_error)
        if graded.loss_error is not None:
            raise RolloutLost(graded.loss_error)
        return graded

    def _kept(self, request: RunRequest, graded: GradedEpisode) -> bytes:
        body = json.dumps(answer(request, graded, self._model)).encode()
        try:
            self._answers.write(request, body)
        except OSError as error:
            log.warning("the result of %s is answered but not kept: %s", request.instance_id, error)
        return body


def _outcome(task: asyncio.Task[bytes]) -> web.Response:
    """The response to a rollout that has ended."""
    if task.cancelled():
        return _refusal(503, "the server stopped before the rollout had ended; ask again", CANCELLED)
    try:
        return web.Response(body=task.result(), content_type="application/json")
    except InvalidRequest as error:
        return _refusal(400, str(error), "refused")
    except RolloutLost as error:
        return _refusal(503, str(error), INFRASTRUCTURE_ERROR)
    except PromptError as error:
        return _refusal(500, str(error), PROMPT_FAILED)
    except Exception as error:
        log.exception("a rollout failed")
        return _refusal(500, f"{type(error).__name__}: {error}", "error")


def _refused_access(status: int, error: str) -> web.Response:
    return _refusal(status, error, "refused")


def _refusal(status: int, error: str, exit_status: str) -> web.Response:
    body: dict[str, Any] = {"error": error, "info": {"exit_status": exit_status}}
    return web.json_response(body, status=status)
