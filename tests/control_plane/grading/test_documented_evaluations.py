"""Commands of pages that evaluate a model behind an API or grade reference fixes, as the pages have them.

What differs from a reader's: the address of the API, the namespace, and the task of the files that the commands name.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns

from tests.chat_server import ChatServer, scripted, serving
from tests.control_plane.operator_process import Operator
from tests.scripted_engine import block
from tests.unit.docs.pages import commands_of

from .test_episode import FIX, SUBMIT

API, MODEL, KEY = "https://api.example.org/v1", "qwen3-32b", "sk-very-secret-0123456789"
EVALUATION, VERIFIED, OWN_TASKS = "docs/evaluation.md", "docs/swe-bench-verified.md", "docs/own-tasks.md"
EVAL_RUNS = [
    words for page in (EVALUATION, VERIFIED) for words in commands_of(page, "swerl", "eval", "run") if API in words
]
SECONDS = 400.0  # for one command
Run = Callable[[Sequence[str]], Awaitable[str]]


@pytest.fixture
def run(kubeconfig: str, namespace: str, task: Task, tmp_path: Path) -> Run:
    """Runs a command in a folder with the files that it reads; its output. It must succeed."""
    own_task = replace(task, instance_id="textkit__textkit-3")
    for path, each in (("verified/verified", task), ("tasks/tasks", task), ("my-tasks/tasks", own_task)):
        rows = {".jsonl": visible_columns(each), ".grading.jsonl": grading_columns(each)}
        for suffix, row in rows.items():
            file = tmp_path / f"{path}{suffix}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"instance_id": each.instance_id} | row) + "\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "KUBECONFIG": kubeconfig, "MODEL_KEY": KEY}

    async def execute(words: Sequence[str]) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "swerl_agent.cli", *words[1:], "--namespace", namespace,
            cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, output.decode()
        return output.decode()

    return execute


def solver(key: str | None) -> ChatServer:
    return ChatServer(scripted(block(FIX), block(SUBMIT)), key=key, models=[MODEL])


def at(server: ChatServer, words: Sequence[str]) -> list[str]:
    return [server.url if word == API else word for word in words]


@pytest.mark.parametrize("words", EVAL_RUNS, ids=lambda words: words[words.index("--output") + 1] + str(len(words)))
async def test_documented_evaluation_measures_a_model_behind_an_api(
    operator: Operator, run: Run, words: list[str], tmp_path: Path
) -> None:
    samples = int(words[words.index("--samples") + 1]) if "--samples" in words else 1
    async with serving(solver(KEY)) as server:
        output = await run(at(server, words))
    assert f"{samples} of {samples} samples resolved" in output and KEY not in output
    summary = json.loads((tmp_path / words[words.index("--output") + 1] / "summary.json").read_text())
    assert (summary["model"], summary["resolved"], summary["errors"]) == (MODEL, samples, 0)


async def test_documented_episode_of_an_own_task_is_run_and_graded(
    operator: Operator, run: Run, tmp_path: Path
) -> None:
    [words] = commands_of(OWN_TASKS, "swerl", "episode", "run")
    async with serving(solver(None)) as server:
        assert "resolved" in await run(at(server, words))
    [view] = commands_of(OWN_TASKS, "swerl", "view")
    assert list((tmp_path / view[-1]).rglob("traj.json")), "what the page's `swerl view` shows"


async def test_documented_check_of_the_grading_resolves_reference_fixes(run: Run, tmp_path: Path) -> None:
    [words] = commands_of(VERIFIED, "swerl", "grade", "--gold")
    assert "1 of 1" in await run(words)
    assert list((tmp_path / words[words.index("--output") + 1]).rglob("report.json"))
