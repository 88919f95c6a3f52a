"""An OpenAI-compatible server with a chat API: vLLM, SGLang's /v1, a hosted API with a key.

Guarantees: the model's answer is returned as the server gave it; a full context window is distinguished from every
other refusal; the API key goes to the server and into no message; a request that still fails after the retries of
`with_retries`, or returns no chat completion, is an EngineError. Token ids and log-probs are unknown: no training.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import aiohttp

from .engine import (
    RETRY_POLICY,
    ROUTING_HEADER,
    EndpointError,
    EngineError,
    RetryPolicy,
    Transient,
    api_key_headers,
    raise_if_transient,
    with_retries,
)
from .proxy import Proxy

Message = Mapping[str, Any]  # as OpenAI's API has it
PATH = "/chat/completions"
CHECK_SECONDS = 900.0  # for the request that an evaluation begins with; a hosted model may have to start first
LISTED = 10  # models of the server that an error names
QUOTED = 500  # characters of a server's answer that an error holds
CHANGE_URL = "--engine, or model.endpoint.url of a SweEval"
CHANGE_MODEL = "--model, or model.endpoint.model of a SweEval"
CHANGE_KEY = "--api-key-env, or model.endpoint.apiKeySecret of a SweEval"

# Names of a request's longest answer: the usual one, and the only one that some hosted models take.
MAX_TOKENS, MAX_COMPLETION_TOKENS = "max_tokens", "max_completion_tokens"
# What servers say when the messages, or messages and longest answer, do not fit. There is no standard; OpenAI has the
# code context_length_exceeded, vLLM and SGLang "maximum context length", llama.cpp "context size", others the rest.
_FULL = re.compile(
    r"context[_ ](?:length|window|size|limit)|maximum (?:input|prompt) length|maximum number of tokens"
    r"|(?:prompt|input)s? (?:is|are) too (?:long|large)|inputs?\W+tokens \+ \W?max_new_tokens",
    re.IGNORECASE,
)
_FULL_STATUSES = (400, 413, 422)


class ContextFull(Exception):
    """The messages do not fit into the model's window: an end of the episode, no failure. Says how many, and what to
    change."""


@dataclass(frozen=True)
class Completion:
    """What the server answered."""

    body: Mapping[str, Any]  # all of it
    message: Message
    truncated: bool  # cut for its length
    usage: Mapping[str, float]  # requests and, if the server counts, prompt_tokens, cached_tokens, completion_tokens

    @property
    def content(self) -> str:
        """The answer without the thought that the server has split off."""
        return text_of(self.message.get("content"))

    @property
    def text(self) -> str:
        """All generated text."""
        return generated_text(self.message)


class ChatCompletions:
    """The chat completions at `base_url`, which usually ends with /v1, of the model named `model` there.

    `timeout`: seconds for one request, queueing included. `top_p` and `top_k` are sent where they are not neutral.
    `proxy` leads to the server; None: it is asked directly.
    """

    def __init__(
        self,
        base_url: str,
        session: aiohttp.ClientSession,
        *,
        model: str,
        api_key: str | None = None,
        timeout: float = 1800,
        top_p: float = 1.0,
        top_k: int = 0,
        proxy: Proxy | None = None,
        retry_policy: RetryPolicy = RETRY_POLICY,
    ) -> None:
        self._base = base_url.rstrip("/").removesuffix(PATH)
        self._url = self._base + PATH
        self._session, self._model, self._key = session, model, api_key
        self._retry_policy = retry_policy
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=30)
        self._sampling = ({} if top_p == 1.0 else {"top_p": top_p}) | ({"top_k": top_k} if top_k else {})
        self._longest = MAX_TOKENS
        # What is encrypted goes through a tunnel, and the proxy is shown its headers before.
        self._to_proxy = proxy.headers if proxy and self._base.startswith("http:") else {}
        self._way: dict[str, Any] = {"proxy": proxy.url, "proxy_headers": proxy.headers} if proxy else {}

    async def check(
        self, *, max_tokens: int, temperature: float, tools: Sequence[Mapping[str, Any]] = (), **more: Any
    ) -> None:
        """Find out whether episodes will be answered, by one short question in their manner; `more` as of `complete`.

        Raises EndpointError for what must be changed, EngineError when there is no answer in CHECK_SECONDS.
        """
        optional: dict[str, Any] = {**more, **({"tools": list(tools)} if tools else {})}
        request = partial(
            self.complete,
            [{"role": "user", "content": "Reply with OK."}],
            max_tokens=max_tokens,
            temperature=temperature,
            **optional,
        )
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._find_model()
                try:
                    await request()
                except EndpointError as error:
                    if MAX_COMPLETION_TOKENS not in str(error):
                        raise
                    self._longest = MAX_COMPLETION_TOKENS
                    await request()
        except ContextFull as full:
            raise EndpointError(
                f"{self._url} has no room for an answer of {max_tokens} tokens: {full}; lower --max-tokens, or "
                "agent.maxTokensPerTurn of a SweEval"
            ) from full
        except TimeoutError as error:
            raise EngineError(f"{self._url} gave no answer in {CHECK_SECONDS:.0f} s") from error

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        routing_key: str = "",
        **more: Any,
    ) -> Completion:
        """The model's answer; `more` are further fields of the request. Raises ContextFull, EngineError.

        `routing_key` has routers send the requests of one key to one engine, which holds their prefix.
        """
        request = {
            "model": self._model,
            "messages": list(messages),
            self._longest: max_tokens,
            "temperature": temperature,
            **self._sampling,
            **more,
        }
        return await with_retries(self._url, partial(self._complete_once, request, routing_key), self._retry_policy)

    async def _complete_once(self, request: Mapping[str, Any], routing_key: str) -> Completion:
        headers = {ROUTING_HEADER: routing_key} if routing_key else {}
        body = self._read(*await self._ask("POST", self._url, headers, request))
        if not isinstance(body, dict):
            raise self._invalid_answer(body)
        error = body.get("error")
        if isinstance(error, dict) and not body.get("choices"):  # gateways pass on a provider's failure as a success
            code = error.get("code")
            self._refuse(code if isinstance(code, int) else 400, self._clean(json.dumps(body)))
        try:
            return _completion(body)
        except (AttributeError, IndexError, KeyError, TypeError) as wrong:
            raise self._invalid_answer(body) from wrong

    async def _find_model(self) -> None:
        """Raises EndpointError when the server lists its models and ours is not among them."""
        request = partial(self._ask, "GET", f"{self._base}/models", {})
        status, text = await with_retries(self._base, request, self._retry_policy)
        if status in (401, 403):
            self._refuse(status, text)
        try:
            names = [str(entry["id"]) for entry in json.loads(text)["data"]] if status == 200 else []
        except (KeyError, TypeError, ValueError):
            names = []  # no such list; the first request fails if the model is absent
        if names and not {self._model, f"models/{self._model}"} & set(names):
            others = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
            raise EndpointError(
                f"{self._base} does not serve model {self._model!r} but {', '.join(names[:LISTED])}{others}; choose "
                f"one with {CHANGE_MODEL}"
            )

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], request: Mapping[str, Any] | None = None
    ) -> tuple[int, str]:
        """Status and text; raises Transient and aiohttp.ClientError for what a retry may better."""
        async with self._session.request(
            method,
            url,
            json=request,
            headers={**headers, **api_key_headers(self._key), **self._to_proxy},
            timeout=self._timeout,
            allow_redirects=False,
            **self._way,
        ) as response:
            text = self._clean(await response.text("utf-8", "replace"))
            raise_if_transient(response, text)
            if 300 <= response.status < 400:
                place = response.headers.get("Location", "elsewhere")
                raise EndpointError(f"{url} has moved to {place}: give the new address with {CHANGE_URL}")
            return response.status, text

    def _read(self, status: int, text: str) -> Any:
        if status != 200:
            self._refuse(status, text)
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._invalid_answer(text) from error

    def _refuse(self, status: int, text: str) -> NoReturn:
        """Raises what a refusal means."""
        message = f"HTTP {status}: {text[:QUOTED]}"
        if status == 429 or status >= 500:
            raise Transient(message)
        if status in _FULL_STATUSES and _FULL.search(text):
            raise ContextFull(
                f"does not fit into the window of the model at {self._url} ({message}): serve a longer one"
            )
        if status in (401, 403):
            what = "refuses the API key" if self._key else "requires an API key"
            raise EndpointError(f"{self._url} {what}: {message}; give a valid one with {CHANGE_KEY}")
        if status == 404 and self._model in text:
            raise EndpointError(f"{self._url} does not serve model {self._model!r}: {message}; change {CHANGE_MODEL}")
        if status in (404, 405):
            raise EndpointError(
                f"{self._base} has no {PATH}: {message}; give the base address of an OpenAI-compatible API, usually "
                f".../v1, with {CHANGE_URL}"
            )
        raise EndpointError(f"{self._url} refused the request: {message}")

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _invalid_answer(self, answer: Any) -> EngineError:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return EngineError(f"{self._url} returned an answer that is not a chat completion: {text[:200]!r}")


def generated_text(message: Message) -> str:
    """All text of an answer: thought, content, tool calls; calls unchanged, well-formed or not."""
    thought = message.get("reasoning_content") or message.get("reasoning")
    functions = [call.get("function") or {} for call in message.get("tool_calls") or ()]
    calls = [json.dumps({"name": one.get("name"), "arguments": _object(one.get("arguments"))}) for one in functions]
    blocks = "".join(f"\n<tool_call>\n{call}\n</tool_call>" for call in calls)
    opening = f"<think>{thought}</think>" if isinstance(thought, str) and thought else ""
    return opening + text_of(message.get("content")) + blocks


def text_of(content: Any) -> str:
    """Content as one text: null is '', of a list the parts that are text count."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _object(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def _completion(body: Mapping[str, Any]) -> Completion:
    """Raises AttributeError, IndexError, KeyError, TypeError for a body of another shape."""
    choice = body["choices"][0]
    message = choice["message"]
    message.get("content")  # of an object
    counts = body.get("usage") or {}
    details = counts.get("prompt_tokens_details") or {}
    known = {
        "prompt_tokens": counts.get("prompt_tokens"),
        "cached_tokens": details.get("cached_tokens"),
        "completion_tokens": counts.get("completion_tokens"),
    }
    usage = {name: value for name, value in known.items() if isinstance(value, int | float)}
    return Completion(body, message, choice.get("finish_reason") == "length", {"requests": 1.0, **usage})
