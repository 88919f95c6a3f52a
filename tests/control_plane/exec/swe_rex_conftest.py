"""The conftest.py under which SWE-ReX's own tests run against a Pod: their fixtures, made of our runtime.

SWERL_POD names the Pod (namespace/name), which sees the tests' folder under its own path.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from swerex.runtime.abstract import BashAction, CloseBashSessionRequest, Command, CreateBashSessionRequest
from swerl_agent.integrations.swe_rex_runtime import SandboxRuntime
from swerl_agent.sandbox import PodConnector, Session
from swerl_agent.sandbox.blocking import LoopThread
from swerl_kube import KubeClient


@pytest.fixture(scope="session")
def runtime() -> Iterator[SandboxRuntime]:
    namespace, name = os.environ["SWERL_POD"].split("/")
    loop = LoopThread()

    async def enter() -> tuple[KubeClient, Session, PodConnector]:
        client = await KubeClient.from_environment().__aenter__()
        pod = await client.get("v1", "pods", namespace, name)
        connector = PodConnector(client, namespace, name, uid=pod["metadata"]["uid"])
        return client, Session(connector), connector

    client, session, connector = loop.wait(enter())
    yield SandboxRuntime(session, connector, loop)
    loop.wait(session.close())
    loop.wait(client.__aexit__(None, None, None))
    loop.stop()


@pytest.fixture
async def remote_runtime(runtime: SandboxRuntime) -> AsyncIterator[SandboxRuntime]:
    yield runtime
    await runtime.close()


@pytest.fixture
async def runtime_with_default_session(remote_runtime: SandboxRuntime) -> AsyncIterator[SandboxRuntime]:
    await remote_runtime.create_session(CreateBashSessionRequest())
    yield remote_runtime
    await remote_runtime.close_session(CloseBashSessionRequest())


class _Action(BashAction):
    timeout: float | None = 5


class _Command(Command):
    timeout: float | None = 5
