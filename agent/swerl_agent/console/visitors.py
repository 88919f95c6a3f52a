"""Who opens the console, and whether they may see ground truth.

Guarantees: with reviews, a visitor is admitted only while the API server lets them read SweRLJobs of the namespace;
answers are kept for `CACHE_SECONDS` seconds at most. An API server that does not answer admits no visitor.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from aiohttp import web
from swerl_kube import KubeClient

COOKIE = "swerl_console"
CACHE_SECONDS = 60.0  # seconds
KEPT_VISITORS = 1000
LONGEST_TOKEN = 6000  # characters; a cookie holds 4096 bytes of name and value in most browsers
CONCURRENT_REVIEWS = 8
GROUND_TRUTH = "groundtruth"  # subresource of swerljobs that exists for RBAC alone


@dataclass(frozen=True)
class Visitor:
    """A person or a program that may open the pages."""

    name: str = ""
    ground_truth: bool = True  # whether reference fixes and tests are shown, where the console has them


class Authenticator(Protocol):
    """Decides who a request comes from."""

    login: bool  # whether a page asks for a token
    refusal: str  # answer to a request without a visitor

    async def visitor(self, request: web.Request) -> Visitor | None:
        """None if the request has none; raises KubeError while it cannot be decided."""
        ...


@dataclass(frozen=True)
class SharedToken:
    """All users who have the printed address; '' admits all users."""

    token: str = ""
    login = False
    refusal = "Open the address that swerl view printed, with its token.\n"

    async def visitor(self, request: web.Request) -> Visitor | None:
        """See Authenticator."""
        return Visitor() if self.admits(request.cookies.get(COOKIE)) else None

    def admits(self, given: str | None) -> bool:
        """Whether this token opens the pages."""
        offered = (given or "").encode(errors="surrogateescape")
        return not self.token or hmac.compare_digest(offered, self.token.encode())


@dataclass(frozen=True)
class User:
    """A user as the API server or a proxy names them."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


class Reviews:
    """TokenReviews and SubjectAccessReviews of one namespace; each raises KubeError."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._free = asyncio.Semaphore(CONCURRENT_REVIEWS)

    async def user(self, token: str) -> User | None:
        """Whose token it is; None for a token that the API server does not accept."""
        review = await self._create("authentication.k8s.io/v1", "TokenReview", {"token": token})
        found = review.get("status") or {}
        user = found.get("user") or {}
        if not found.get("authenticated") or not user.get("username"):
            return None
        return User(user["username"], tuple(user.get("groups") or ()), user.get("uid", ""), user.get("extra") or {})

    async def allows(self, user: User, subresource: str = "") -> bool:
        """Whether `user` may get SweRLJobs, or a subresource of them, in the namespace."""
        what = {"verb": "get", "group": "swerl.dev", "resource": "swerljobs", "subresource": subresource}
        who = {"user": user.name, "groups": list(user.groups), "uid": user.uid, "extra": dict(user.extra)}
        spec = {"resourceAttributes": {**what, "namespace": self._namespace}, **who}
        review = await self._create("authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return bool((review.get("status") or {}).get("allowed"))

    async def visitor(self, user: User) -> Visitor | None:
        """The user as a visitor; None without the right to read SweRLJobs."""
        if not await self.allows(user):
            return None
        return Visitor(user.name, ground_truth=await self.allows(user, GROUND_TRUTH))

    async def _create(self, api: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": api, "kind": kind, "metadata": {}, "spec": dict(spec)}
        async with self._free:
            return await self._client.create(f"{kind.lower()}s", body)


class DecisionCache:
    """Answers by the digest of what was asked; the oldest leave first."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, Visitor | None]] = {}

    async def answer(self, key: str, ask: Callable[[], Awaitable[Visitor | None]]) -> Visitor | None:
        """The kept answer, else that of `ask`, whose errors are not kept."""
        until, visitor = self._answers.get(key, (0.0, None))
        if until <= time.monotonic():
            visitor = await ask()
            self._put(key, visitor)
        return visitor

    def _put(self, key: str, visitor: Visitor | None) -> None:
        self._answers.pop(key, None)
        while len(self._answers) >= KEPT_VISITORS:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (time.monotonic() + CACHE_SECONDS, visitor)


class KubernetesToken:
    """Users and service accounts with a token of the cluster: as `Authorization: Bearer`, or from the login page."""

    login = True
    refusal = "This token opens nothing here: log in with a token of a user who may get swerljobs in the namespace.\n"

    def __init__(self, reviews: Reviews) -> None:
        self._reviews, self._decisions = reviews, DecisionCache()

    async def visitor(self, request: web.Request) -> Visitor | None:
        """See Authenticator."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
        return await self.of_token(given)

    async def of_token(self, token: str) -> Visitor | None:
        """The visitor with this token; raises KubeError."""
        if not token or len(token) > LONGEST_TOKEN or not token.isascii():
            return None
        key = hashlib.sha256(token.encode()).hexdigest()
        return await self._decisions.answer(key, partial(self._review, token))

    async def _review(self, token: str) -> Visitor | None:
        user = await self._reviews.user(token)
        return await self._reviews.visitor(user) if user else None


class ProxyHeader:
    """Users that an authenticating proxy names in a header. Every client of the port can name any user: a
    NetworkPolicy must admit the proxy alone."""

    login = False
    refusal = "The proxy names no user who may get swerljobs in the namespace.\n"

    def __init__(self, reviews: Reviews, *, user: str, groups: str) -> None:
        """`user`, `groups`: names of headers; groups are separated by commas."""
        self._reviews, self._user, self._groups, self._decisions = reviews, user, groups, DecisionCache()

    async def visitor(self, request: web.Request) -> Visitor | None:
        """See Authenticator."""
        names = request.headers.getall(self._user, [])
        if len(names) != 1 or not names[0] or reserved([names[0]]):
            return None
        groups = [name.strip() for value in request.headers.getall(self._groups, []) for name in value.split(",")]
        if reserved(groups):
            return None
        user = User(names[0], (*filter(None, groups), "system:authenticated"))
        key = repr((user.name, user.groups))
        return await self._decisions.answer(key, partial(self._reviews.visitor, user))


def reserved(names: Sequence[str]) -> bool:
    """Whether a proxy names an account or a group that only the cluster itself gives."""
    return any(name.startswith("system:") for name in names)
