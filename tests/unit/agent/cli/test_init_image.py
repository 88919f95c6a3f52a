"""`swerl init` names the trainer image of the cluster's release, or says that nothing named its registry."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from swerl_agent import RELEASE

from tests.kubeconfig import write_kubeconfig
from tests.ports import free_port
from tests.unit.agent.jobs.test_installed import deployment

ANSWERS = ["--model", "Qwen/Qwen3-4B", "--tasks", "swe-tasks:train"]
OF_THIS_RELEASE = f"swe-rl/trainer-gpu:{RELEASE}"
WARNING = "give --registry HOST/PATH, or --image REFERENCE"


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """Of a cluster whose operator comes from a registry of its own."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.path == "/apis/apps/v1/deployments"
        found = [deployment("registry.example.org/swe-rl/operator:0.9.0")]
        return web.json_response({"kind": "List", "metadata": {}, "items": found})

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as served:
        yield write_kubeconfig(tmp_path / "kubeconfig", str(served.make_url("")).rstrip("/"))


async def written(kubeconfig: str, *options: str) -> tuple[str, str]:
    """The trainer image of the job that is written without a terminal, and standard error."""
    command = [sys.executable, "-m", "swerl_agent.cli", "init", *ANSWERS, *options]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"KUBECONFIG": kubeconfig},
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors
    return yaml.safe_load(output)["spec"]["trainer"]["image"], errors.decode()


async def test_image_is_that_of_the_installed_release(kubeconfig: str) -> None:
    assert await written(kubeconfig) == ("registry.example.org/swe-rl/trainer-gpu:0.9.0", "")
    image, _ = await written(kubeconfig, "--gpus", "0")
    assert image == "registry.example.org/swe-rl/trainer:0.9.0"


@pytest.mark.parametrize(
    ("options", "image"),
    [
        (["--image", "own/trainer:1"], "own/trainer:1"),
        (["--registry", "other.example.org/mirror"], f"other.example.org/mirror/{OF_THIS_RELEASE}"),
    ],
)
async def test_option_counts_more_than_the_cluster(kubeconfig: str, options: list[str], image: str) -> None:
    assert await written(kubeconfig, *options) == (image, "")


async def test_without_a_cluster_the_warning_names_the_options(tmp_path: Path) -> None:
    closed = write_kubeconfig(tmp_path / "closed", f"http://127.0.0.1:{free_port()}")
    for kubeconfig in (str(tmp_path / "absent"), closed):
        image, errors = await written(kubeconfig)
        assert image == OF_THIS_RELEASE and WARNING in errors


async def test_namespace_of_the_options_is_that_of_the_job(kubeconfig: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "swerl_agent.cli", "init", str(path), *ANSWERS, "-n", "team", "--image", "own"
    )
    assert await process.wait() == 0
    assert yaml.safe_load(path.read_text())["metadata"] == {"name": "qwen3-4b", "namespace": "team"}
