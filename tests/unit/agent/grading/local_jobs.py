"""Grading Jobs on this machine: the wrapper is process 1 of a PID namespace, on a copy of the task's repository."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.grading import Grader
from swerl_agent.grading.framing import Framer
from swerl_agent.grading.job import JobRun, NoReport
from swerl_agent.grading.manifests import WITNESS
from swerl_agent.tasks import Task
from swerl_api import GradingSpec, SandboxSpec

from .wrapper import IN_PID_NAMESPACE


class Cluster:
    """Takes what it is given."""

    async def create(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

    async def delete(self, *args: Any, **kwargs: Any) -> None: ...


def at(task: Task, tree: Path) -> Task:
    """The task with its work tree elsewhere."""
    script = task.ground_truth.eval_script.replace("/testbed", str(tree))
    return replace(task, ground_truth=replace(task.ground_truth, eval_script=script))


@asynccontextmanager
async def local_grader(
    monkeypatch: pytest.MonkeyPatch, repository: Path, tree: Path, workdir: str = "", **changes: Any
) -> AsyncIterator[Grader]:
    """A Grader whose Jobs run one after the other here; `tree`: where each finds a fresh copy of `repository`.

    `workdir`: that of tasks which name none, if not `tree`.
    """
    turn = asyncio.Lock()

    async def run_job(
        client: Any, watch: Any, namespace: str, job: Mapping[str, Any], maps: Sequence[Any], **how: Any
    ) -> JobRun:
        async with turn:
            return await asyncio.to_thread(run_here, job, maps, repository, tree)

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)
    cluster: Any = Cluster()
    settings = GradingSpec.model_validate({"cache": False, "retries": 0, "timeout_seconds": 300, **changes})
    sandbox = SandboxSpec(workdir=workdir or str(tree), egress="allow")
    async with Grader(cluster, "n", settings, sandbox=sandbox) as grader:
        yield grader


def run_here(job: Mapping[str, Any], maps: Sequence[Any], repository: Path, tree: Path) -> JobRun:
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(repository, tree, symlinks=True)
    container = job["spec"]["template"]["spec"]["containers"][0]
    with tempfile.TemporaryDirectory(prefix="job-") as folder:
        payload = Path(folder) / "swerl"
        for content in (each["binaryData"] for each in maps):
            for name, packed in content.items():
                path = payload / WITNESS.get(name.removesuffix(".000"), name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(packed))
        arguments = [*container["command"][2:-1], str(payload)]
        (Path(folder) / "tmp").mkdir()
        plain = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TMPDIR": f"{folder}/tmp",
            "HOME": folder,
        }
        done = subprocess.run(
            [*IN_PID_NAMESPACE, "bash", str(payload / "grade.sh.000"), *arguments],
            capture_output=True,
            env=plain | {each["name"]: each["value"] for each in container["env"]},
        )
    report = Framer().feed(done.stdout)
    if report is None:
        raise NoReport(f"no report: {done.stdout[-500:].decode(errors='replace')} {done.stderr[-500:].decode()}")
    return JobRun(report, "")
