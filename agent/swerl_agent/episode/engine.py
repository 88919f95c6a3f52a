"""Inference engines with token input and output.

Guarantees:

* Ids and log-probs of a `Generation` have equal length and belong together; each log-prob is a number.
* An answer that the server aborted, e.g. for a weight update, is continued from its tokens. The spans name the weights
  that sampled each token.
* A request that fails after all retries, or whose answer is no result of SGLang, raises EngineError, an infrastructure
  failure. No retry is earlier than the server requests.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import aiohttp
from swerl_kube import parse_retry_after

ROUTING_HEADER = "X-SMG-Routing-Key"  # the router sends requests of one key to one engine, which holds their prefix

# A server's figure of a request, and its name in `Generation.usage`; the last two only with `--enable-metrics`.
USAGE = {
    "prompt_tokens": "prompt_tokens",
    "cached_tokens": "cached_tokens",
    "completion_tokens": "completion_tokens",
    "e2e_latency": "latency",
    "queue_time": "queue",
    "first_token_latency": "first_token",
}

ALL_TOKENS = -1  # what SGLang calls a top_k that leaves none out
SEED_BITS = 62  # of a random seed; without one a deterministic server would give a whole group the same answer
FINISHES = ("stop", "length", "abort")
T = TypeVar("T")


class EngineError(Exception):
    """No usable answer from the inference engine: an infrastructure failure, never the policy's.

    `code` is the stable word for metrics and artifacts.
    """

    code: ClassVar[str] = "engine_lost"


class EndpointError(EngineError):
    """The server refuses the request, and would refuse it again; the message names it and what to change."""

    code: ClassVar[str] = "endpoint_refused"


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and how soon, a request is repeated."""

    retries: int = 8
    first_delay: float = 0.5  # seconds; doubles per retry up to `last_delay`, with full jitter
    last_delay: float = 15.0
    longest_wait: float = 600.0  # seconds; a longer Retry-After is an EngineError


RETRY_POLICY = RetryPolicy()


@dataclass(frozen=True)
class Generation:
    """What was sampled after the input ids."""

    output_ids: list[int]
    logprobs: list[float]  # natural log, of the temperature-scaled distribution; one per output id
    finish_reason: str  # stop | length
    weight_versions: list[tuple[str, int, int]] = field(default_factory=list)  # (version, start, end) in output_ids
    usage: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Sums over the requests it took: `requests`, and the server's figures of each: `prompt_tokens`, of them
    `cached_tokens`, `completion_tokens`; seconds of `latency` (of the whole request), `queue`, `first_token`."""


class Engine(Protocol):
    """Samples tokens."""

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
        truncation: Mapping[str, float] | None = None,
    ) -> Generation:
        """Sample until a stop token or `max_new_tokens`; raises EngineError.

        `seed` makes servers that infer deterministically sample the same again; None is another one each time.
        `truncation` (top_p, top_k, min_p) replaces the engine's own limits on unlikely tokens.
        """
        ...


def api_key_headers(key: str | None) -> dict[str, str]:
    """Headers of requests to a server that asks for `key`; none for None."""
    return {"Authorization": f"Bearer {key}"} if key else {}


class SGLangEngine:
    """The native `/generate` of an SGLang server, or of the router before several.

    `timeout`: seconds for one request, queueing included. `top_p` and `top_k` (0: all) leave out unlikely tokens; the
    log-probs stay those of the whole distribution. `adapter`: name of the server's LoRA adapter; None: no adapter.
    """

    def __init__(
        self,
        base_url: str,
        session: aiohttp.ClientSession,
        *,
        timeout: float = 1800,
        top_p: float = 1.0,
        top_k: int = 0,
        adapter: str | None = None,
        retry_policy: RetryPolicy = RETRY_POLICY,
    ) -> None:
        self._adapter = {} if adapter is None else {"lora_path": adapter}
        self._url = base_url.rstrip("/") + "/generate"
        self._session, self._retry_policy = session, retry_policy
        self._share = {"top_p": top_p, "top_k": top_k or ALL_TOKENS}
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=30)

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
        seed: int | None = None,
        truncation: Mapping[str, float] | None = None,
    ) -> Generation:
        """See Engine."""
        whole = Generation([], [], "length")
        while len(whole.output_ids) < max_new_tokens:
            sampling = {
                "max_new_tokens": max_new_tokens - len(whole.output_ids),
                "temperature": temperature,
                **self._share,
                **(truncation or {}),
                "stop_token_ids": list(stop_token_ids),
                "sampling_seed": random.getrandbits(SEED_BITS) if seed is None else seed,
                "skip_special_tokens": False,
            }
            body = await self._post([*input_ids, *whole.output_ids], sampling, routing_key)
            whole = _joined(whole, self._generation(body))
            if whole.finish_reason != "abort":
                return whole
        return replace(whole, finish_reason="length")

    async def _post(self, input_ids: list[int], sampling: dict[str, Any], routing_key: str) -> Mapping[str, Any]:
        send = partial(self._post_once, input_ids, sampling, routing_key)
        return await with_retries(self._url, send, self._retry_policy)

    async def _post_once(self, input_ids: list[int], sampling: dict[str, Any], routing_key: str) -> Mapping[str, Any]:
        request = {
            "input_ids": input_ids,
            "sampling_params": sampling,
            "return_logprob": True,
            **self._adapter,
            "rid": uuid.uuid4().hex,  # new per try: the server matches ids by prefix and may still hold the last one
        }
        async with self._session.post(
            self._url, json=request, headers={ROUTING_HEADER: routing_key}, timeout=self._timeout
        ) as response:
            status, text = response.status, await response.text("utf-8", "replace")
            raise_if_transient(response, text)
        if status != 200:
            raise EngineError(f"{self._url} refused the request: HTTP {status}: {text[:500]}")
        try:
            body = json.loads(text)
        except ValueError as error:
            raise self._invalid_answer(text) from error
        if not isinstance(body, dict) or not isinstance(body.get("meta_info"), dict):
            raise self._invalid_answer(text)
        return body

    def _generation(self, body: Mapping[str, Any]) -> Generation:
        try:
            return _generation(body)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise self._invalid_answer(json.dumps(body)) from error

    def _invalid_answer(self, text: str) -> EngineError:
        return EngineError(f"{self._url} answered something that is no SGLang result: {text[:200]!r}")


class Transient(Exception):
    """An answer that a retry may improve; `after`: seconds of the server's Retry-After, 0 without one."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


async def with_retries(url: str, send: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
    """The result of `send`, retried while the server at `url` is busy or down; raises EngineError in the end."""
    for failures in range(policy.retries + 1):
        try:
            return await send()
        except (aiohttp.ClientError, TimeoutError, Transient) as error:
            requested_pause = error.after if isinstance(error, Transient) else 0.0
            if requested_pause > policy.longest_wait:
                raise EngineError(f"{url} requests a wait of {requested_pause:.0f} s: {error}") from error
            if failures == policy.retries:
                raise EngineError(
                    f"{url} gave no answer after {failures} retries: {type(error).__name__}: {error}"
                ) from error
        await asyncio.sleep(
            requested_pause + random.uniform(0, min(policy.last_delay, policy.first_delay * 2**failures))
        )
    raise AssertionError("unreachable")


def raise_if_transient(response: aiohttp.ClientResponse, text: str) -> None:
    """Raises Transient for an answer that asks for a later retry."""
    status = response.status
    if status in (408, 429) or status >= 500:
        raise Transient(
            f"HTTP {status}: {text[:300]}", parse_retry_after(response.headers.get("Retry-After", "")) or 0.0
        )


def _generation(body: Mapping[str, Any]) -> Generation:
    """The parsed answer; raises EngineError, and other errors for an answer of another shape."""
    meta = body["meta_info"]
    entries = meta.get("output_token_logprobs") or []
    ids = [int(entry[1]) for entry in entries]
    output_ids = [int(index) for index in body.get("output_ids") or ids]
    if ids != output_ids:
        raise EngineError(f"the engine's log-probs cover {len(ids)} tokens, not the {len(output_ids)} it sampled")
    finish = meta.get("finish_reason") or {}
    if finish.get("type") == "abort" and finish.get("status_code"):
        raise EngineError(f"the engine aborted the request: {finish.get('message')} ({finish['status_code']})")
    if finish.get("type") not in FINISHES:
        raise ValueError("an answer without an end")
    logprobs = [float(entry[0]) for entry in entries]
    if not all(map(math.isfinite, logprobs)):
        raise EngineError("the engine returned a log-prob that is not a number: its weights or its cache are damaged")
    return Generation(ids, logprobs, finish["type"], _spans(meta, len(ids)), _usage(meta))


def _spans(meta: Mapping[str, Any], length: int) -> list[tuple[str, int, int]]:
    spans = meta.get("weight_versions")
    if spans:
        return [(str(span["version"]), int(span["start"]), int(span["end"])) for span in spans]
    return [(str(meta.get("weight_version", "default")), 0, length)] if length else []


def _usage(meta: Mapping[str, Any]) -> dict[str, float]:
    reported = {name: meta[key] for key, name in USAGE.items() if isinstance(meta.get(key), int | float)}
    return {"requests": 1.0, **reported}


def added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Sums by name; what one of the two does not have counts as nothing."""
    return {**first, **{name: first.get(name, 0.0) + value for name, value in second.items()}}


def _joined(first: Generation, second: Generation) -> Generation:
    offset = len(first.output_ids)
    return Generation(
        first.output_ids + second.output_ids,
        first.logprobs + second.logprobs,
        second.finish_reason,
        first.weight_versions + [(version, offset + a, offset + b) for version, a, b in second.weight_versions],
        added(first.usage, second.usage),
    )
