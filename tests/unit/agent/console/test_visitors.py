"""Visitors by reviews of the API server: tokens, the login page, a proxy's headers, the right to see ground truth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer
from swerl_agent.console import Authenticator, ConsoleAccess, KubernetesToken, ProxyHeader, Reviews
from swerl_agent.console.access import own_path
from swerl_kube import ClusterConfig, Credentials, KubeClient

from tests.unit.agent.tasks.rows import jsonl, swebench

from .artifacts import RESOLVED, episode, write_rollout
from .conftest import Console, OpenConsole
from .review_server import ReviewServer, review_application

TASK = "django__django-13820"
HTML = {"Accept": "text/html"}


class Reviewed:
    """A console behind an authenticator, and the server that its authenticator asks."""

    def __init__(self, console: Console, server: ReviewServer, path: str) -> None:
        self.client, self.server, self.path = console.client, server, path

    async def get(self, page: str = "/", **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.client.get(page, headers=named, allow_redirects=False)
        return answer.status, await answer.text()

    async def sees_ground_truth(self, **headers: str) -> bool:
        status, text = await self.get(f"/episode?path={self.path}", **headers)
        assert status == 200, text
        assert ("Tests and log of the grading" in text) == ("Ground truth" in text)
        return "Ground truth" in text


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def reviewed(
    open_console: OpenConsole, stack: AsyncExitStack, tmp_path: Path, authenticator: Callable[[Reviews], Authenticator]
) -> Reviewed:
    """A console of one rollout, with the ground truth of its task."""
    server = ReviewServer()
    served = await stack.enter_async_context(TestServer(review_application(server)))
    config = ClusterConfig(str(served.make_url("")).rstrip("/"), "runs", None, Credentials())
    client = await stack.enter_async_context(KubeClient(config))
    folder = write_rollout(tmp_path / "folder" / "demo", episode(TASK), replace(RESOLVED, log="1 passed"), 1)
    tasks = jsonl(tmp_path / "t.jsonl", swebench(TASK))
    access = ConsoleAccess("0.0.0.0", authenticator(Reviews(client, "runs")))
    console = await open_console(access, gold=tasks, gradings=True)
    return Reviewed(console, server, console.path(folder))


def headers_of(reviews: Reviews) -> ProxyHeader:
    return ProxyHeader(reviews, user="X-Forwarded-User", groups="X-Forwarded-Groups")


@pytest.fixture
async def tokens(open_console: OpenConsole, stack: AsyncExitStack, tmp_path: Path) -> Reviewed:
    return await reviewed(open_console, stack, tmp_path, KubernetesToken)


@pytest.fixture
async def proxied(open_console: OpenConsole, stack: AsyncExitStack, tmp_path: Path) -> Reviewed:
    return await reviewed(open_console, stack, tmp_path, headers_of)


async def test_token_without_the_right_opens_nothing(tokens: Reviewed) -> None:
    for given in ({}, {"Authorization": "Bearer stranger-token"}, {"Authorization": "Bearer guess"}):
        assert await tokens.get(**given) == (401, KubernetesToken.refusal)
    assert (await tokens.get("/text?path=x", Authorization="Basic viewer-token"))[0] == 401


async def test_ground_truth_needs_its_own_right(tokens: Reviewed) -> None:
    assert not await tokens.sees_ground_truth(Authorization="Bearer viewer-token")
    assert await tokens.sees_ground_truth(Authorization="Bearer reviewer-token")


async def test_answers_are_kept(tokens: Reviewed) -> None:
    for _ in range(5):
        assert (await tokens.get(Authorization="Bearer viewer-token"))[0] == 200
        assert (await tokens.get(Authorization="Bearer guess"))[0] == 401
    assert tokens.server.asked.count("TokenReview") == 2


async def test_overlong_token_is_not_asked_about(tokens: Reviewed) -> None:
    assert (await tokens.get(Authorization=f"Bearer {'x' * 7000}"))[0] == 401
    assert tokens.server.asked == []


async def test_browser_logs_in_once(tokens: Reviewed) -> None:
    answer = await tokens.client.get("/episodes?q=x", headers=HTML, allow_redirects=False)
    assert answer.status == 303 and answer.headers["Location"] == "/login?next=%2Fepisodes%3Fq%3Dx"
    form = await (await tokens.client.get(answer.headers["Location"])).text()
    assert 'name="next" value="/episodes?q=x"' in form and "viewer" not in form
    wrong = await tokens.client.post("/login", data={"token": "guess", "next": "/"})
    assert wrong.status == 403 and "opens nothing here" in await wrong.text()
    right = {"token": " viewer-token\n", "next": "/episodes?q=x"}
    entered = await tokens.client.post("/login", data=right, allow_redirects=False)
    assert entered.status == 303 and entered.headers["Location"] == "/episodes?q=x"
    cookie = entered.cookies["swerl_console"]
    assert cookie["httponly"] and cookie["samesite"] == "Strict" and not cookie["secure"]
    tokens.client.session.cookie_jar.clear()
    assert (await tokens.client.get("/", cookies={"swerl_console": "viewer-token"})).status == 200


async def test_token_that_no_cookie_holds_is_named(tokens: Reviewed) -> None:
    answer = await tokens.client.post("/login", data={"token": "x" * 5000})
    assert answer.status == 400 and "too long" in await answer.text() and not answer.cookies


async def test_login_from_another_site_is_refused(tokens: Reviewed) -> None:
    answer = await tokens.client.post(
        "/login", data={"token": "viewer-token"}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert answer.status == 403 and not answer.cookies


OTHER_HOSTS = (
    "https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example",
    "\n//evil.example",
)  # fmt: skip


@pytest.mark.parametrize("path", OTHER_HOSTS)
def test_login_leads_to_no_other_host(path: str) -> None:
    as_browsers_read_it = own_path(path).translate({ord(each): None for each in "\t\r\n"})
    assert as_browsers_read_it.startswith("/") and not as_browsers_read_it.startswith(("//", "/\\"))


async def test_login_adds_no_header(tokens: Reviewed) -> None:
    given = {"token": "viewer-token", "next": "/\r\nX-Owned: yes"}
    answer = await tokens.client.post("/login", data=given, allow_redirects=False)
    assert answer.status == 303 and "X-Owned" not in answer.headers


async def test_cookie_over_https_is_secure(tokens: Reviewed) -> None:
    answer = await tokens.client.post(
        "/login", data={"token": "viewer-token"}, headers={"X-Forwarded-Proto": "https"}, allow_redirects=False
    )
    assert answer.cookies["swerl_console"]["secure"]


async def test_silent_api_server_admits_no_visitor(
    open_console: OpenConsole, stack: AsyncExitStack, tmp_path: Path
) -> None:
    client = await stack.enter_async_context(
        KubeClient(ClusterConfig("http://127.0.0.1:1", "runs", None, Credentials()))
    )
    console = await open_console(ConsoleAccess("0.0.0.0", KubernetesToken(Reviews(client, "runs"))))
    answer = await console.client.get("/", headers={"Authorization": "Bearer viewer-token"})
    assert answer.status == 503 and "did not say who may open this page" in await answer.text()
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    form = await console.client.post("/login", data={"token": "viewer-token"})
    assert form.status == 503 and not form.cookies


async def test_proxy_names_user_and_groups(proxied: Reviewed) -> None:
    assert (await proxied.get(X_Forwarded_User="viewer"))[0] == 200
    assert (await proxied.get(X_Forwarded_User="ann", X_Forwarded_Groups="team:editors, others"))[0] == 200
    assert await proxied.get(X_Forwarded_User="ann") == (403, ProxyHeader.refusal)
    assert not await proxied.sees_ground_truth(X_Forwarded_User="viewer")
    assert await proxied.sees_ground_truth(X_Forwarded_User="reviewer")
    assert "TokenReview" not in proxied.server.asked


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_Forwarded_User": ""},
        {"X_Forwarded_User": "system:admin"},
        {"X_Forwarded_User": "viewer", "X_Forwarded_Groups": "a,system:masters"},
        {"Authorization": "Bearer viewer-token"},
    ],
)
async def test_proxy_without_a_plain_user_opens_nothing(proxied: Reviewed, headers: dict[str, str]) -> None:
    assert (await proxied.get(**headers))[0] == 403
    assert proxied.server.asked == []


async def test_request_with_two_users_is_refused(proxied: Reviewed) -> None:
    headers = [("X-Forwarded-User", "viewer"), ("X-Forwarded-User", "reviewer")]
    assert (await proxied.client.get("/", headers=headers)).status == 403


async def test_proxied_console_has_no_login(proxied: Reviewed) -> None:
    assert (await proxied.client.post("/login", headers={"X-Forwarded-User": "viewer"})).status == 404
