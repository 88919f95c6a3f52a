"""Consoles that ask an API server for their visitors, served by the real command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp.test_utils import TestServer

from tests.unit.agent.console.artifacts import RESOLVED, episode, write_evaluation, write_rollout
from tests.unit.agent.console.review_server import ReviewServer, review_application

from .conftest import served

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: reviews
contexts: [{{name: reviews, context: {{cluster: reviews, user: console, namespace: runs}}}}]
clusters: [{{name: reviews, cluster: {{server: "{server}"}}}}]
users: [{{name: console, user: {{token: of-the-console}}}}]
"""


@contextmanager
def reviewed_console(folder: Path, auth: str) -> Iterator[str]:
    """The address of `swerl view --auth <auth>` over a job and an evaluation."""
    root = folder / "runs"
    write_rollout(root / "demo", episode(), RESOLVED, 1)
    write_evaluation(root / "eval")
    with review_server() as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(server=server))
        with served(root, "--auth", auth, KUBECONFIG=str(kubeconfig)) as address:
            yield address


@contextmanager
def review_server() -> Iterator[str]:
    """The address of an API server that answers reviews, in a thread."""
    started, over, addresses = threading.Event(), threading.Event(), list[str]()

    async def serve() -> None:
        async with TestServer(review_application(ReviewServer())) as server:
            addresses.append(str(server.make_url("")).rstrip("/"))
            started.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
    thread.start()
    assert started.wait(60), "the server did not start"
    yield addresses[0]
    over.set()
    thread.join()
