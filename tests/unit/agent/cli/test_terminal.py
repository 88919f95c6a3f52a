"""Commands on a terminal: `swerl init` asks for what is open, `swerl watch` redraws its view in place."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from swerl_agent import RELEASE

from tests.kubeconfig import write_kubeconfig
from tests.unit.agent.jobs.test_view import groups, reading

from .terminal import Terminal, on_terminal

UP_AND_CLEAR = "\x1b[1A\x1b[2K"  # to the line above, which is erased
STEPS = (1, 4, 8)
NO_CLUSTER = {"KUBECONFIG": "/no-kubeconfig"}


def test_init_asks_for_each_open_answer(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    answers = [("Model", "Qwen/Qwen3-0.6B"), ("Tasks", ""), ("PersistentVolumeClaim", "out"), ("GPUs", "1")]
    answers += [("Registry", "registry.example.org/mirror")]
    with on_terminal("init", str(path), "--nodes", "1", environment=NO_CLUSTER) as terminal:
        for question, answer in answers:
            terminal.wait_for(question)
            terminal.type(answer)
        assert terminal.end() == 0, terminal.output
    job = yaml.safe_load(path.read_text())
    spec = job["spec"]
    assert spec["model"]["source"] == {"huggingFace": {"id": "Qwen/Qwen3-0.6B"}}
    assert spec["tasks"]["source"] == {"persistentVolumeClaim": {"claimName": "swe-tasks", "path": "train"}}
    assert spec["checkpoint"]["volume"] == {"persistentVolumeClaim": {"claimName": "out"}}
    assert spec["trainer"]["gpus"] == 1
    assert spec["trainer"]["image"] == f"registry.example.org/mirror/swe-rl/trainer-gpu:{RELEASE}"
    assert "Nodes" not in terminal.output and f"next: swerl validate {path}" in terminal.output


def test_init_asks_again_after_an_answer_that_is_no_number_of_machines(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    given = ["--model", "Qwen/Qwen3-0.6B", "--tasks", "swe-tasks:train", "--output-claim", "runs", "--image", "own"]
    with on_terminal("init", str(path), *given) as terminal:
        for question, answer in [("GPUs", "-1"), ("GPUs", "many"), ("GPUs", "2"), ("Nodes", "0"), ("Nodes", "1")]:
            terminal.wait_for(f"{question} ")
            terminal.type(answer)
        assert terminal.end() == 0, terminal.output
    assert "'many' is not a whole number" in terminal.output and "Traceback" not in terminal.output
    assert yaml.safe_load(path.read_text())["spec"]["trainer"]["gpus"] == 1  # one of two GPUs infers


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """Of a server whose job is a few steps further each time that it is read, and Complete in the end."""
    readings = [reading(step) for step in STEPS]
    last = reading(9)
    last["status"]["phase"] = "Complete"

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/swesandboxes"):
            return web.json_response({"kind": "List", "metadata": {}, "items": groups(1)})
        return web.json_response(readings.pop(0) if readings else last)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as served:
        yield write_kubeconfig(tmp_path / "kubeconfig", str(served.make_url("")).rstrip("/"))


async def test_watch_redraws_its_view_in_place(kubeconfig: str) -> None:
    def watch() -> tuple[Terminal, int]:
        with on_terminal("watch", "q", "--interval", "0.1", "--kubeconfig", kubeconfig) as terminal:
            return terminal, terminal.end()

    terminal, code = await asyncio.to_thread(watch)
    assert code == 0, terminal.output
    views = terminal.output.split("SweRLJob q")[1:]
    assert list(dict.fromkeys(re.findall(r"step (\d+)/9", "".join(views)))) == ["1", "4", "8", "9"]
    assert len(views) >= 4
    assert all(UP_AND_CLEAR in view for view in views[:-1]), "the lines of a view are erased before the next one"


async def test_watch_without_a_terminal_prints_lines(kubeconfig: str) -> None:
    words = ["watch", "q", "--interval", "0.1", "--kubeconfig", kubeconfig]
    command = [sys.executable, "-m", "swerl_agent.cli", *words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "step 8/9" in done.stdout and len(done.stdout.splitlines()) == 4
