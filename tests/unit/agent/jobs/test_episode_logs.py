"""`swerl logs --grading` and `--sandbox`: from Pods that exist, and from the folder that real runs wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode.live import LiveFile, remove_live_file
from swerl_agent.grading import Verdict
from swerl_agent.jobs import JobCommandError, episode_logs
from swerl_agent.jobs.episode_logs import EpisodeLog, episode_of_pod, grading_log, newest_of, sandbox_log

from tests.unit.agent.console.artifacts import UNRESOLVED, episode, step, turn_messages, write_rollout
from tests.unit.agent.grading.test_framing import framed

from .api_server import NAMESPACE, api

JOB = {"metadata": {"name": "q", "namespace": NAMESPACE}}
GRADED = replace(UNRESOLVED, log="E   assert 7 == 9\n1 failed\n")


@dataclass(frozen=True)
class LocalOutput:
    """The folder of a job on this machine, read by this machine's shell."""

    folder: str
    pod: str = "q-head"

    async def read(self, script: str, *arguments: str) -> bytes:
        command = ["sh", "-c", f'cd "$1" && shift && {{ {script}\n}}', "sh", self.folder, *arguments]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        content, _ = await process.communicate()
        assert process.returncode == 0
        return content


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The job's folder."""

    @asynccontextmanager
    async def opened(client: Any, job: Any) -> AsyncIterator[LocalOutput]:
        yield LocalOutput(str(tmp_path))

    monkeypatch.setattr(episode_logs, "job_output", opened)
    return tmp_path


def pod(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "uid": name}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


async def log_of(what: str, name: str, *pods: dict[str, Any], logs: dict[str, bytes] | None = None) -> EpisodeLog:
    async with api({"pods": pods}, logs) as client:
        return await (grading_log if what == "grading" else sandbox_log)(client, JOB, name)


async def refusal(what: str, name: str) -> str:
    with pytest.raises(JobCommandError) as error:
        await log_of(what, name)
    return str(error.value)


async def test_grading_of_an_episode_is_read_from_the_folder(folder: Path) -> None:
    written = write_rollout(folder, episode(group="s3-0", index=2), GRADED, 3)
    for name in (written.name, str(written), "s3-0/2", "swe-rl__store-4__gs3-0__i2"):
        found = await log_of("grading", name)
        assert found.origin == f"{folder}/artifacts/step-0003/.gradings/{written.name}.json, read in Pod q-head"
        assert found.lines[:2] == [UNRESOLVED.detail, "failed    FAIL_TO_PASS tests/test_cart.py::test_total"]
        assert found.lines[-2:] == ["E   assert 7 == 9", "1 failed"]


async def test_newest_try_of_an_episode_counts(folder: Path) -> None:
    for line in ("first", "second"):
        write_rollout(folder, episode(), replace(GRADED, log=line), 1)
    assert (await log_of("grading", "g1/0")).lines[-1] == "second"


async def test_log_of_a_grading_that_ended_comes_from_its_pod(folder: Path) -> None:
    job_pod = pod("swegr-1-x", **{"batch.kubernetes.io/job-name": "swegr-1"})
    for name in ("swegr-1", "swegr-1-x"):
        found = await log_of("grading", name, job_pod, logs={"swegr-1-x": framed(b"2 passed\nbye")})
        assert found == EpisodeLog("Pod swegr-1-x", ["2 passed", "bye"])
    runs = await log_of("grading", "swegr-1", job_pod, logs={"swegr-1-x": framed()[:60]})
    assert runs.lines == [] and "it reports the log of its tests at its end" in runs.origin


async def test_commands_of_a_sandbox_are_read_after_its_end(folder: Path) -> None:
    write_rollout(folder, episode(group="s3-0", index=2), GRADED, 3)
    for name in ("s3-0/2", "swesb-q-1-s3-0-2"):
        found = await log_of("sandbox", name)
        assert found.lines[0] == "$ grep -rn total store" and found.lines[-1] == "[exit code 0, 0.4 s]"
        assert "store/cart.py:11: def total" in found.lines and "3 passed" in "".join(found.lines)
        assert "traj.json, read in Pod q-head" in found.origin


async def test_commands_of_a_sandbox_are_read_while_it_runs(folder: Path) -> None:
    path = folder / "artifacts/step-0001/t__gs1-0__i0__live.jsonl"
    live = LiveFile(path, {"instance_id": "t"})
    live.report("model", turn_messages(0, "ls", "a.py\n"), [step(0, "ls", "a.py\n")])
    copy = Path(folder / "artifacts/step-0001/t__gs1-0__i1__live.jsonl")
    remove_live_file(copy)  # waits until everything is written
    found = await log_of("sandbox", "swesb-q-1-s1-0-0", pod("swesb-q-1-s1-0-0"), logs={"swesb-q-1-s1-0-0": b"begins\n"})
    assert found.lines[:2] == ["begins", "$ ls"] and found.lines[-1] == "[exit code 0, 0.4 s]"
    assert found.origin.endswith("live.jsonl, read in Pod q-head: the episode runs")
    assert "is not graded yet; `swerl logs JOB --sandbox s1-0/0`" in await refusal("grading", "s1-0/0")


async def test_missing_part_is_named(folder: Path) -> None:
    blocked = write_rollout(folder, episode(), Verdict("policy_blocked", detail="no"), 1)
    for index in (1, 2):
        write_rollout(folder, episode(index=index), GRADED, 1)
    assert f"{blocked.name} in {folder} has no log of a grading: its patch was not run" in await refusal(
        "grading", "g1/0"
    )
    for what in ("grading", "sandbox"):
        assert f"{folder} has no episode 'absent'" in await refusal(what, "absent")
    several = "swe-rl__store-4__gg1__i1__, swe-rl__store-4__gg1__i2__; name one of them"
    assert several in await refusal("grading", "swe-rl__store")
    assert "does not say which episode it is for" in await refusal("sandbox", "swesb-q-1-s3-0-r1-2")
    assert "has no episode" in await refusal("sandbox", "$(touch x); */*")
    assert not (folder / "x").exists()


def test_pod_names_say_the_episode() -> None:
    assert episode_of_pod("swesb-my-job-12-e0003-7-11", "my-job") == "e0003-7/11"
    assert newest_of([]) == ""
