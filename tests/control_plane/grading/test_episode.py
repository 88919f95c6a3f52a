"""Episodes in a real sandbox: what a hostile or clumsy model does stays inside the episode."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from swerl_agent.episode import BuiltinAgent, Episode, EpisodeRequest, HFTokenizer, Prompts, write_artifacts
from swerl_agent.grading import Grader
from swerl_agent.sandbox import PodConnector, Session
from swerl_agent.tasks import Task
from swerl_kube import KubeClient, NotFound

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block

from ...unit.agent.episode.conftest import PLAIN, make_tokenizer

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
NEIGHBOUR = 5.0  # seconds a neighbour's command may take meanwhile
FIX = "sed -i 's/max(low, value)/min(high, max(low, value))/' calc.py"


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN))


@asynccontextmanager
async def in_a_pod(client: KubeClient, namespace: str, task: Task, *, egress: str = "none") -> AsyncIterator[Session]:
    """A session in a fresh Pod of the task's image."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "swesb-episode-",
            "labels": {"swerl.dev/role": "sandbox", "swerl.dev/egress": egress},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "sandbox",
                    "image": task.image,
                    "command": ["sh", "-c", "sleep 600"],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                }
            ],
        },
    }
    pod = await client.create("pods", body, namespace=namespace)
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    try:
        async for event in client.watch("v1", "pods", namespace, fields=f"metadata.name={name}"):
            if event.object["status"].get("phase") == "Running":
                break
        async with Session(PodConnector(client, namespace, name, uid=uid)) as opened:
            yield opened
    finally:
        with suppress(NotFound):
            await client.delete("v1", "pods", namespace, name, grace_seconds=0)


@pytest.fixture
async def session(client: KubeClient, namespace: str, task: Task) -> AsyncIterator[Session]:
    async with in_a_pod(client, namespace, task) as opened:
        yield opened


@pytest.fixture
async def neighbour(client: KubeClient, namespace: str, task: Task) -> AsyncIterator[None]:
    """Another sandbox, which must notice nothing of the test: neither in its answers' time nor in its work tree."""
    over = asyncio.Event()
    session_programs = "sh|bash|dash|setsid|git|ps|grep|sort|rm"  # what the session and this command come and go with
    find_other_processes = f"ps -e -o comm= | grep -vxE '{session_programs}' | sort"

    async def work(session: Session) -> float:
        slowest = 0.0
        while not over.is_set():
            started = time.monotonic()
            assert (
                await session.run(f"git status --porcelain && {find_other_processes}", timeout=30)
            ).stdout == processes_before
            slowest = max(slowest, time.monotonic() - started)
            await asyncio.sleep(0.3)
        return slowest

    async with in_a_pod(client, namespace, task) as session:
        processes_before = (await session.run(find_other_processes, timeout=30)).stdout
        working = asyncio.create_task(work(session))
        yield
        over.set()
        assert await working < NEIGHBOUR


async def attempt(
    task: Task, session: Session, tokenizer: HFTokenizer, *answers: str | bytes, **changes: float
) -> tuple[Episode, Script]:
    texts = [block(answer) if isinstance(answer, str) else answer.decode("utf-8", "replace") for answer in answers]
    script = Script(tokenizer, texts)
    spec = agent_spec(context_tokens=200_000, step_limit=len(answers), **changes)
    agent = BuiltinAgent(script, tokenizer, Prompts.default(), spec)
    episode = await agent.run_episode(EpisodeRequest(task, group="g", index=0, temperature=1.0), session)
    return episode, script


async def test_fix_made_in_a_sandbox_is_resolved_by_grading(
    task: Task, session: Session, tokenizer: HFTokenizer, grader: Grader, tmp_path: Path
) -> None:
    episode, script = await attempt(task, session, tokenizer, "cat calc.py", FIX, SUBMIT)
    assert (episode.exit_status, episode.patch_source) == ("submitted", "submission")
    assert "def clamp" in script.read[1]
    assert episode.patch
    verdict = await grader.grade(task, episode.patch)
    assert verdict.resolved, verdict
    folder = write_artifacts(tmp_path, episode, verdict)
    assert json.loads((folder / "traj.json").read_text())["info"]["verdict"]["status"] == "resolved"


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"\xff\xfe garbage \x00", "Give exactly ONE command"),
        ("sleep 1000", "was stopped after 10 seconds"),
        ("head -c 100000000 /dev/zero | tr '\\0' x", "99990000 characters elided"),
        ("printf '\\377\\376caf\\351'", "caf\ufffd"),
        ("(setsid sleep 300 &) ; echo started", "started"),
        ("exit 7", "<returncode>7</returncode>"),
    ],
)
@pytest.mark.usefixtures("neighbour")
async def test_episode_continues(
    task: Task, session: Session, tokenizer: HFTokenizer, answer: str | bytes, shown: str
) -> None:
    episode, script = await attempt(task, session, tokenizer, answer, FIX, SUBMIT, command_timeout_seconds=10)
    assert shown in script.read[1]
    assert episode.exit_status == "submitted"
    assert not episode.infrastructure_error


@pytest.mark.usefixtures("neighbour")
async def test_deleted_repository_leaves_no_patch_and_no_infrastructure_error(
    task: Task, session: Session, tokenizer: HFTokenizer
) -> None:
    episode, script = await attempt(task, session, tokenizer, "rm -rf /testbed", "ls", SUBMIT)
    assert len(script.read) == 3
    assert (episode.exit_status, episode.patch) == ("max_steps", None), episode
    assert not episode.infrastructure_error


async def test_deleted_pod_is_an_infrastructure_error(
    client: KubeClient, namespace: str, task: Task, session: Session, tokenizer: HFTokenizer
) -> None:
    running = asyncio.create_task(attempt(task, session, tokenizer, "sleep 60", SUBMIT))
    await asyncio.sleep(3)
    for pod in await client.list("v1", "pods", namespace):
        await client.delete("v1", "pods", namespace, pod["metadata"]["name"], grace_seconds=0)
    episode, script = await running
    assert episode.infrastructure_error
    assert len(script.read) == 1
