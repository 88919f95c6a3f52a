"""Who may open the console, and what its answers allow a browser."""

from __future__ import annotations

import pytest
from swerl_agent.console import ConsoleAccess, SharedToken

from .conftest import OpenConsole


@pytest.mark.parametrize(
    ("host", "header", "known"),
    [
        ("127.0.0.1", "127.0.0.1:8765", True),
        ("127.0.0.1", "localhost:8765", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "evil.example:8765", False),
        ("127.0.0.1", "10.0.0.7:8765", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "10.0.0.7:8765", True),
        ("0.0.0.0", "[fd00::7]:8765", True),
        ("0.0.0.0", "console.example", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
def test_host_header(host: str, header: str, known: bool) -> None:
    names = frozenset({"console.example"}) if host == "0.0.0.0" else frozenset[str]()
    assert ConsoleAccess(host, names=names).accepts_host(header) is known


def test_cookie_that_is_no_text_opens_nothing() -> None:
    assert not SharedToken("secret").admits("\udcff")


async def test_foreign_host_header_is_refused(open_console: OpenConsole) -> None:
    console = await open_console()
    answer = await console.client.get("/", headers={"Host": "evil.example"})
    assert answer.status == 421 and "--allow-host" in await answer.text()


async def test_token_opens_the_pages_once_and_for_all(open_console: OpenConsole) -> None:
    console = await open_console(ConsoleAccess("0.0.0.0", SharedToken("secret")))
    for page in ("/", "/episodes", "/assets/console.js"):
        assert (await console.get(page)).status == 403
    assert (await console.get("/", token="guess")).status == 403
    answer = await console.get("/episodes", token="secret", q="x")
    assert answer.status == 303 and answer.headers["Location"] == "/episodes?q=x"
    assert answer.cookies["swerl_console"]["httponly"] and answer.cookies["swerl_console"]["samesite"] == "Strict"
    console.client.session.cookie_jar.clear()
    assert (await console.client.get("/", cookies={"swerl_console": "secret"})).status == 200
    console.client.session.cookie_jar.clear()
    assert (await console.client.get("/", cookies={"swerl_console": "other"})).status == 403


async def test_every_answer_has_the_headers(open_console: OpenConsole) -> None:
    console = await open_console()
    for page in ("/", "/episodes", "/nowhere", "/episode", "/assets/console.css"):
        headers = (await console.get(page)).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


async def test_nothing_can_be_changed(open_console: OpenConsole) -> None:
    console = await open_console()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await console.client.request(method, "/episodes")).status == 405


async def test_pages_name_no_other_host(open_console: OpenConsole) -> None:
    console = await open_console()
    for page in ("/", "/episodes", "/assets/console.js", "/assets/console.css"):
        assert "://" not in await (await console.get(page)).text()
