"""A console over a folder, asked over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from swerl_agent.console import ConsoleAccess, EpisodeIndex, GroundTruthSource, Handlers, Pages, console_application

PAGE_LIMIT = 500_000  # bytes of a page


class Console:
    """Pages of the folder `root`."""

    def __init__(self, client: TestClient[Any, Any], index: EpisodeIndex) -> None:
        self.client, self.index = client, index

    async def get(self, page: str, /, **values: str | int) -> ClientResponse:
        """The answer to a page's address."""
        return await self.client.get(page, params={k: str(v) for k, v in values.items()}, allow_redirects=False)

    async def page(self, page: str, /, **values: str | int) -> str:
        """The text of a page that is there and small enough."""
        answer = await self.get(page, **values)
        content = await answer.read()
        assert answer.status == 200, content
        assert len(content) <= PAGE_LIMIT
        return content.decode()

    def path(self, folder: Path) -> str:
        """How pages name an episode's folder."""
        return str(folder.relative_to(self.index.root))


OpenConsole = Callable[..., Awaitable[Console]]


@pytest.fixture
async def open_console(tmp_path: Path) -> AsyncIterator[OpenConsole]:
    """Opens a console of `tmp_path`/folder with an up-to-date index."""
    clients: list[TestClient[Any, Any]] = []

    async def opened(
        access: ConsoleAccess | None = None,
        *,
        gold: Path | None = None,
        gradings: bool = False,
        root: Path = tmp_path / "folder",
    ) -> Console:
        root.mkdir(exist_ok=True)
        index = EpisodeIndex(root, tmp_path / "index.sqlite")
        index.scan()
        source = GroundTruthSource(gold) if gold else None
        handlers = Handlers(index, Pages(root.name), source, gradings)
        application = console_application(handlers, access or ConsoleAccess())
        clients.append(TestClient(TestServer(application)))
        await clients[-1].start_server()
        return Console(clients[-1], index)

    yield opened
    for client in clients:
        await client.close()


def shown(page: str) -> str:
    """The words of a page, without its markup."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
