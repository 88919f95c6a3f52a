"""The API server is killed during an episode and during its grading: both continue, and no command runs twice."""

from __future__ import annotations

import asyncio

import pytest
from swerl_agent.episode import HFTokenizer
from swerl_agent.grading import Grader
from swerl_agent.sandbox import Session
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from tests.chaos.components import Components

from .test_episode import FIX, SUBMIT, attempt, session, tokenizer

__all__ = ["session", "tokenizer"]

pytestmark = pytest.mark.alone
OUTAGE_SECONDS = 6.0  # seconds without an API server
RAN = "/tmp/ran"
# The first is over while the server is away, the second is asked for then.
COMMANDS = [
    f"echo one >>{RAN}; sleep 4; echo first over",
    f"echo two >>{RAN}; {FIX} && echo fixed >>/tmp/fixed",
    f"echo three >>{RAN}; cat /tmp/fixed",
]


@pytest.fixture
def components(kubeconfig: str) -> Components:
    return Components(kubeconfig)


async def restart_api_server(components: Components) -> None:
    components.kill("apiserver")
    await asyncio.sleep(OUTAGE_SECONDS)
    await components.start("apiserver")


async def test_episode_and_its_grading_go_on(
    task: Task, session: Session, tokenizer: HFTokenizer, grader: Grader, client: KubeClient, namespace: str,
    components: Components,
) -> None:  # fmt: skip
    running = asyncio.create_task(attempt(task, session, tokenizer, *COMMANDS, SUBMIT))
    await asyncio.sleep(1.5)
    assert not running.done()
    await restart_api_server(components)
    episode, script = await asyncio.wait_for(running, 180)
    assert (episode.exit_status, episode.infrastructure_error) == ("submitted", False)
    assert "first over\n" in script.read[1] and "fixed\n" in script.read[3]
    assert (await session.run(f"cat {RAN}", timeout=60)).stdout == b"one\ntwo\nthree\n"
    assert episode.patch

    grading = asyncio.create_task(grader.grade(task, episode.patch))
    await until_a_job_of_grading(client, namespace)
    await restart_api_server(components)
    verdict = await asyncio.wait_for(grading, 180)
    assert verdict.resolved, verdict


async def until_a_job_of_grading(client: KubeClient, namespace: str) -> None:
    async with asyncio.timeout(30):
        async for _ in client.watch("batch/v1", "jobs", namespace):
            return
