"""`swerl logs --follow` and `swerl metrics` of a job that runs, from its head Pod and its sandboxes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from swerl_api.names import ATTEMPT_LABEL, JOB_LABEL, OUTPUT_PATH, ROLE_DRIVER, ROLE_LABEL, ROLE_SANDBOX, job_folder

from tests.conftest import kubectl

from .test_steering import IMAGE, job, swerl

NAME = "followed"
FOLDER = f"{OUTPUT_PATH}/{job_folder(NAME)}/logs/1"
BEGIN = "for each in driver engine-0.1 rank-1; do echo $each begins >$each.log; done"
HEAD = f'mkdir -p {FOLDER}; cd {FOLDER}; echo "$STEPS" >../../metrics.jsonl; {BEGIN}'
SANDBOX = "echo sandbox begins; until [ -f /tmp/go ]; do sleep 0.1; done; echo sandbox goes on"
STEPS = [{"kind": "step", "step": step, "rollout/raw_reward": step / 10} for step in (1, 2, 3)]
FOREVER = "; exec sleep 1000"


def pod(name: str, container: str, script: str, **labels: str) -> dict[str, object]:
    """A Pod of the job whose container runs `script`."""
    mounts = [{"name": "output", "mountPath": OUTPUT_PATH}]
    run = {"name": container, "image": IMAGE, "command": ["sh", "-c", script + FOREVER], "volumeMounts": mounts}
    run |= {"env": [{"name": "STEPS", "value": "\n".join(map(json.dumps, STEPS))}]}
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


def test_metrics_of_a_job_that_runs_are_plotted(kubeconfig: str, namespace: str, running: list[str]) -> None:
    place = ["--kubeconfig", kubeconfig, "-n", namespace]
    done = swerl("metrics", NAME, place=place)
    assert done.returncode == 0 and done.stdout.startswith("rollout/raw_reward: 0.3\n"), done
    assert "0.1 ┤" in done.stdout, done
    listed = swerl("metrics", NAME, "--list", "-o", "json", place=place)
    assert json.loads(listed.stdout) == {"rollout/raw_reward": 0.3}, listed


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
