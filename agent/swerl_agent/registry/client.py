"""HEAD requests for manifests (OCI distribution specification), with the registry's authentication.

Guarantees: what a registry asks to wait is waited for, by all requests to it; a request is tried again when the answer
does not decide about the image: no connection, 408, 429, 5xx.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from swerl_kube import parse_retry_after
from yarl import URL

from swerl_agent.episode import EndpointError, environment_proxy

from .credentials import RegistryCredentials
from .rate_limit import RateLimiter
from .reference import DOCKER_HUB, ParsedReference

ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
HOSTS = {DOCKER_HUB: "registry-1.docker.io"}  # where the API is, if not at the registry's name
LOCAL = ("localhost", "127.0.0.1", "[::1]")  # reached by http, as container runtimes do
RETRIABLE_STATUSES = frozenset({408, 429, 500, 502, 503, 504})
TIMEOUT = aiohttp.ClientTimeout(total=30)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a retry, where the answer does not say how long
LONGEST_WAIT = 6 * 3600.0  # what a registry may ask for; Docker Hub's limits are per six hours
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class RegistryUnavailable(Exception):
    """A registry did not answer whether it has an image; the message has its answer."""


@dataclass(frozen=True)
class RegistryLimits:
    """How a registry is asked."""

    per_minute: int = 90  # requests to one host; public registries refuse more than about 100
    retries: int = 5
    plain_http: Collection[str] = ()  # registries without TLS


@dataclass(frozen=True)
class _RegistryAnswer:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any = field(default=None, repr=False)


class RegistryClient:
    """Asks registries for manifests; one object for one run."""

    def __init__(
        self, http: aiohttp.ClientSession, credentials: Mapping[str, RegistryCredentials], limits: RegistryLimits
    ) -> None:
        self._http, self._credentials, self._limits = http, credentials, limits
        self._rate_limiters: dict[str, RateLimiter] = {}
        self._proxies: dict[str, dict[str, Any]] = {}
        self._authorization: dict[tuple[str, str], str] = {}  # by registry and repository
        self.remaining: dict[str, int] = {}  # pulls that a registry still allows in its period, where it says so

    async def head(self, image: ParsedReference) -> int:
        """The status of the image's manifest: 200, 404, or one that refuses; raises RegistryUnavailable."""
        url = self._base(image.registry) / "v2" / image.repository / "manifests" / image.version
        place = image.registry, image.repository
        answer = await self._ask("HEAD", url, {"Accept": ACCEPT, **self._authorized(place)})
        if answer.status == 401 and (authorization := await self._authorize(image, answer)):
            self._authorization[place] = authorization
            answer = await self._ask("HEAD", url, {"Accept": ACCEPT, **self._authorized(place)})
        if (left := answer.headers.get("RateLimit-Remaining", "").partition(";")[0]).isdecimal():
            self.remaining[image.registry] = int(left)
        return answer.status

    def _base(self, registry: str) -> URL:
        local = registry.rpartition(":")[0] in LOCAL or registry in LOCAL
        scheme = "http" if local or registry in self._limits.plain_http else "https"
        return URL(f"{scheme}://{HOSTS.get(registry, registry)}")

    def _authorized(self, place: tuple[str, str]) -> dict[str, str]:
        return {"Authorization": self._authorization[place]} if place in self._authorization else {}

    async def _authorize(self, image: ParsedReference, refusal: _RegistryAnswer) -> str | None:
        """Authorization for the registry's challenge; None if there is none."""
        challenge = refusal.headers.get("WWW-Authenticate", "")
        login = self._credentials.get(image.registry)
        if challenge.lower().startswith("basic"):
            return login.header if login else None
        parameters = dict(_PARAMETER.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in parameters:
            return None
        query = {"scope": f"repository:{image.repository}:pull"}
        query |= {"service": parameters["service"]} if "service" in parameters else {}
        shown = {"Authorization": login.header} if login else {}
        answer = await self._ask("GET", URL(parameters["realm"]).update_query(query), shown)
        granted = answer.body if isinstance(answer.body, dict) else {}
        token = granted.get("token") or granted.get("access_token")
        return f"Bearer {token}" if answer.status == 200 and token else None

    async def _ask(self, method: str, url: URL, headers: Mapping[str, str]) -> _RegistryAnswer:
        """The first conclusive answer; raises RegistryUnavailable after the last retry."""
        failure = ""
        for failures in range(self._limits.retries + 1):
            limiter = self._rate_limiters.setdefault(url.authority, RateLimiter(self._limits.per_minute))
            await limiter.acquire()
            pause = min(FIRST_PAUSE * 2**failures, LONGEST_PAUSE)
            try:
                answer = await self._once(method, url, headers)
            except (aiohttp.ClientError, TimeoutError) as error:
                failure = f"{url.authority} cannot be reached: {str(error) or type(error).__name__}"
                await asyncio.sleep(pause if failures < self._limits.retries else 0)
                continue
            except EndpointError as error:
                raise RegistryUnavailable(str(error)) from error
            if answer.status not in RETRIABLE_STATUSES:
                return answer
            failure = f"{url.authority} answered {answer.status} to every request"
            retry_after = parse_retry_after(answer.headers.get("Retry-After", ""))
            if retry_after is None:
                retry_after = LONGEST_PAUSE if answer.status == 429 else pause
            limiter.pause(min(retry_after, LONGEST_WAIT))
        raise RegistryUnavailable(failure)

    async def _once(self, method: str, url: URL, headers: Mapping[str, str]) -> _RegistryAnswer:
        proxy = await self._proxy(url)
        async with self._http.request(method, url, headers=headers, timeout=TIMEOUT, **proxy) as answer:
            text = await answer.text() if method == "GET" and answer.status == 200 else ""
            return _RegistryAnswer(answer.status, answer.headers, _json(text))

    async def _proxy(self, url: URL) -> dict[str, Any]:
        if url.authority not in self._proxies:
            found = await environment_proxy(str(url.origin()))
            self._proxies[url.authority] = {"proxy": found.url, "proxy_headers": found.headers} if found else {}
        return self._proxies[url.authority]


def _json(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
