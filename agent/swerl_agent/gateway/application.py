"""The gateway: one endpoint per episode, in the trainer's or evaluation's process, for clients of OpenAI and Anthropic.

Guarantees: an endpoint's URL cannot be guessed and expires with its episode. No log contains a key. Every error has the
format of the API in use, and a status that clients retry only if a retry helps. `streaming` describes errors within a
stream.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from swerl_api import AgentSpec
from swerl_api.addresses import url_host

from swerl_agent.episode import ChatCompletions, Engine, HFTokenizer
from swerl_agent.json_body import content_type_problem
from swerl_agent.listening import listening_site

from . import wire
from .anthropic_messages import MessagesApi
from .chat_completions import ChatApi
from .errors import Refusal, closed, internal, invalid
from .exchange import Api, Exchange
from .openai_responses import ResponsesApi
from .recording import Recording
from .relayed import RelayedRecording
from .request import merged
from .sampled import SampledRecording
from .streaming import KEEP_ALIVE, streamed

MAX_BODY = 64 << 20  # bytes of a request
CHAT, MESSAGES, RESPONSES = "/chat/completions", "/messages", "/responses"
APIS: Mapping[str, Api] = {CHAT: ChatApi(), MESSAGES: MessagesApi(), RESPONSES: ResponsesApi()}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Endpoint:
    """The model's endpoint for the agent of one episode."""

    base_url: str  # ends with /v1, for OpenAI's clients
    api_key: str  # identifies the episode at the gateway's own /v1; ignored at base_url
    model: str

    @property
    def anthropic_url(self) -> str:
        """The base URL for Anthropic's clients, which append /v1 themselves."""
        return self.base_url.removesuffix("/v1")


class Endpoints(ABC):
    """Endpoints for any number of episodes; listens while its context is open.

    `port` 0 picks a free one. `address` is the host name for agents where it differs from `host`. Streams send a
    comment every `keep_alive` seconds.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        address: str | None = None,
        model: str = "policy",
        keep_alive: float = KEEP_ALIVE,
    ) -> None:
        self._model, self._keep_alive = model, keep_alive
        self._host, self._port, self._address = host, port, address or host
        self._episodes: dict[str, Recording] = {}
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1.0)

    @abstractmethod
    def _record(self, spec: AgentSpec, *, routing_key: str, temperature: float) -> Recording:
        """The recording that answers one episode."""

    @property
    def url(self) -> str:
        """The listening address; with /v1 it is the base URL for clients that use the key as their API key."""
        return f"http://{url_host(self._address)}:{self._port}"

    async def __aenter__(self) -> Self:
        """Raises OSError when the port is taken."""
        await self._runner.setup()
        await listening_site(self._runner, self._host, self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for recording in self._episodes.values():
            recording.close()
        await self._runner.cleanup()

    @contextlib.contextmanager
    def episode(self, spec: AgentSpec, *, routing_key: str, temperature: float) -> Iterator[tuple[Endpoint, Recording]]:
        """An endpoint that closes with the context, and its recording.

        `routing_key` keeps episodes of one prompt on one engine; `temperature` is for requests that name none.
        """
        key = secrets.token_urlsafe(24)
        recording = self._record(spec, routing_key=routing_key, temperature=temperature)
        self._episodes[key] = recording
        try:
            yield Endpoint(f"{self.url}/episodes/{key}/v1", key, self._model), recording
        finally:
            del self._episodes[key]
            recording.close()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_errors_in_format], client_max_size=MAX_BODY)
        for base in ("/v1", "/episodes/{key}/v1"):
            for path, api in APIS.items():
                application.router.add_post(base + path, partial(self._answer, api))
            application.router.add_post(f"{base}{MESSAGES}/count_tokens", self._count)
            application.router.add_get(f"{base}/models", self._models)
        return application

    def _recording(self, request: web.Request) -> Recording:
        key = request.match_info.get("key")
        if key is not None:
            recording = self._episodes.get(key)
            if recording is None:
                raise closed()
            return recording
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        recording = self._episodes.get(request.headers.get("x-api-key") or bearer)
        if recording is None:
            raise Refusal(401, "authentication_error", "invalid_api_key", "the API key belongs to no running episode")
        return recording

    async def _models(self, request: web.Request) -> web.Response:
        self._recording(request)
        return web.json_response(wire.models(self._model))

    async def _answer(self, api: Api, request: web.Request) -> web.StreamResponse:
        recording, exchange = await self._exchange(api, request)
        answer = recording.answer(exchange.request, exchange.chat)
        if exchange.request.stream:
            return await streamed(request, api, exchange, answer, keep_alive=self._keep_alive)
        return web.json_response(exchange.answer(await answer))

    async def _count(self, request: web.Request) -> web.Response:
        recording, exchange = await self._exchange(APIS[MESSAGES], request)
        return web.json_response({"input_tokens": recording.count(exchange.request, exchange.chat)})

    async def _exchange(self, api: Api, request: web.Request) -> tuple[Recording, Exchange]:
        recording = self._recording(request)
        if problem := content_type_problem(request):
            raise Refusal(415, "invalid_request_error", "unsupported_media_type", problem)
        try:
            body = json.loads(await request.read())
        except ValueError as error:
            raise invalid(f"the body is not JSON: {error}", None) from error
        return recording, api.exchange(merged(body), recording)


class Gateway(Endpoints):
    """Endpoints in front of an engine; requests are recorded in tokens."""

    def __init__(self, engine: Engine, tokenizer: HFTokenizer, **place: Any) -> None:
        super().__init__(**place)
        self._engine, self._tokenizer = engine, tokenizer

    def _record(self, spec: AgentSpec, *, routing_key: str, temperature: float) -> Recording:
        return SampledRecording(self._engine, self._tokenizer, spec, routing_key=routing_key, temperature=temperature)


class Relay(Endpoints):
    """Endpoints in front of an OpenAI-compatible server; requests are recorded in messages alone."""

    def __init__(self, server: ChatCompletions, **place: Any) -> None:
        super().__init__(**place)
        self._server = server

    def _record(self, spec: AgentSpec, *, routing_key: str, temperature: float) -> Recording:
        return RelayedRecording(self._server, spec, routing_key=routing_key, temperature=temperature)


@web.middleware
async def _errors_in_format(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as raised:
        refusal = raised
    except web.HTTPException as error:
        code = "request_too_large" if error.status == 413 else None
        refusal = Refusal(error.status, "invalid_request_error", code, error.text or error.reason)
    except Exception as error:
        refusal = internal(error)
    api = next((api for path, api in APIS.items() if path in request.path), APIS[CHAT])
    return web.json_response(api.error(refusal), status=refusal.status)
