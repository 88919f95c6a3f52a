"""`swerl logs --follow` of a job's processes, from its head Pod and from its sandboxes, as they write."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from swerl_api.names import ATTEMPT_LABEL, JOB_LABEL, OUTPUT_PATH, ROLE_DRIVER, ROLE_LABEL, ROLE_SANDBOX, job_folder

from tests.conftest import kubectl

from .test_steering import IMAGE, job

NAME = "followed"
FOLDER = f"{OUTPUT_PATH}/{job_folder(NAME)}/logs/1"
HEAD = f"mkdir -p {FOLDER}; cd {FOLDER}; for each in driver engine-0.1 rank-1; do echo $each begins >$each.log; done"
SANDBOX = "echo sandbox begins; until [ -f /tmp/go ]; do sleep 0.1; done; echo sandbox goes on"
FOREVER = "; exec sleep 1000"


def pod(name: str, container: str, script: str, **labels: str) -> dict[str, object]:
    """A Pod of the job whose container runs `script`."""
    mounts = [{"name": "output", "mountPath": OUTPUT_PATH}]
    run = {"name": container, "image": IMAGE, "command": ["sh", "-c", script + FOREVER], "volumeMounts": mounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {JOB_LABEL: NAME, **labels}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "output", "emptyDir": {}}],
            "containers": [run],
        },
    }


@pytest.fixture(scope="module")
def running(kubeconfig: str, namespace: str, crds: None) -> list[str]:
    """kubectl's options for the namespace of a job whose head and sandbox run."""
    scope = ["-n", namespace]
    labels = {ROLE_LABEL: ROLE_DRIVER, ATTEMPT_LABEL: "1", "ray.io/node-type": "head"}
    head = pod("head", "ray-head", HEAD, **labels)
    for body in (job(NAME, suspend=True), head, pod("sandbox", "main", SANDBOX, **{ROLE_LABEL: ROLE_SANDBOX})):
        kubectl(kubeconfig, *scope, "create", "-f", "-", stdin=json.dumps(body))
    status = json.dumps({"status": {"phase": "Training", "attempt": 1}})
    kubectl(kubeconfig, *scope, "patch", "swerl", NAME, "--subresource=status", "--type=merge", "-p", status)
    kubectl(kubeconfig, *scope, "wait", "--for=condition=Ready", "pod/head", "pod/sandbox", "--timeout=100s")
    return scope


@asynccontextmanager
async def following(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "swerl_agent.cli", "logs", NAME, "--follow", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(120):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read_until(process: asyncio.subprocess.Process, wanted: set[str]) -> set[str]:
    """The lines up to the last of `wanted`."""
    assert process.stdout is not None
    seen: set[str] = set()
    while not wanted <= seen:
        line = (await process.stdout.readline()).decode()
        assert line, f"the command ended with {process.returncode} after {seen}"
        seen.add(line.rstrip("\n"))
    return seen


async def test_followed_lines_of_all_sources_are_mixed_until_the_head_ends(
    kubeconfig: str, namespace: str, running: list[str]
) -> None:
    place = ["--kubeconfig", kubeconfig, "-n", namespace]
    sources = [part for source in ("driver", "engine", "rank", "sandbox") for part in ("--source", source)]
    begins = {
        "[driver] driver begins",
        "[engine-0.1] engine-0.1 begins",
        "[rank-1] rank-1 begins",
        "[sandbox] sandbox begins",
    }
    goes_on = {"[driver] step 1", "[engine-0.1] serving", "[rank-1] train_step took 1.0 s", "[sandbox] sandbox goes on"}
    more = "echo step 1 >>driver.log; echo serving >>engine-0.1.log; echo train_step took 1.0 s >>rank-1.log"
    async with following(*sources, *place) as process:
        assert await read_until(process, begins) == begins
        kubectl(kubeconfig, *running, "exec", "head", "--", "sh", "-c", f"cd {FOLDER}; {more}")
        kubectl(kubeconfig, *running, "exec", "sandbox", "--", "touch", "/tmp/go")
        assert await read_until(process, goes_on) == goes_on
        kubectl(kubeconfig, *running, "delete", "pod", "head", "--grace-period=0")
        assert await process.wait() == 0
