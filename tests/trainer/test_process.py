"""How a driver's process ends, and what it says last."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ray.exceptions import RayTaskError
from swerl_agent.episode import PromptError
from swerl_agent.tasks import TaskError
from swerl_api import AlgorithmSpec
from swerl_trainer.driver.__main__ import main, permanent_errors
from swerl_trainer.driver.preflight import check_functions
from swerl_trainer.process import INTERRUPTED, NO_RETRY, run_to_end
from swerl_trainer.rollout.errors import RolloutsFailed, TaskImagesMissing


def raised_in_an_actor(cause: Exception) -> Exception:
    """What Ray makes of it."""
    trace = f"Traceback (most recent call last):\n  File x\n{type(cause).__name__}: {cause}"
    error: Exception = RayTaskError("prepare", trace, cause, proctitle="ray::W", pid=7, ip="::1").as_instanceof_cause()
    return error


async def failing(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (RuntimeError("first:\n  second\n" + 2000 * "x"), f"RuntimeError: first: second {986 * 'x'}", 1),
        (TaskError("a.jsonl:3: field patch is missing"), "TaskError: a.jsonl:3: field patch is missing", NO_RETRY),
        (raised_in_an_actor(TaskError("a.jsonl:3: no image")), "TaskError: a.jsonl:3: no image", NO_RETRY),
        (PromptError("agent.system_template: line 1"), "PromptError: agent.system_template: line 1", NO_RETRY),
        (TaskImagesMissing("push no/such:1"), "TaskImagesMissing: push no/such:1", NO_RETRY),
        (RolloutsFailed("pod_evicted: full"), "RolloutsFailed: pod_evicted: full", 1),
        (raised_in_an_actor(ValueError("x")), "ValueError: x", 1),
        (
            ExceptionGroup("unhandled errors in a TaskGroup", [raised_in_an_actor(TaskError("no task left"))]),
            "TaskError: no task left",
            NO_RETRY,
        ),
        (ValueError(), "ValueError: no message", 1),
    ],
)
def test_last_line_names_the_failure_and_wrong_input_is_not_retried(
    capsys: pytest.CaptureFixture[str], error: Exception, message: str, code: int
) -> None:
    assert run_to_end(failing(error), permanent_errors=permanent_errors()) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"SWERL-ERROR: {message}"


def test_job_file_that_is_none_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--job", "/nowhere/job.json"]) == NO_RETRY
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("SWERL-ERROR: JobError: /nowhere/job.json is not a job description")
    )


def test_own_function_that_cannot_be_imported_is_not_retried(capsys: pytest.CaptureFixture[str]) -> None:
    async def check() -> None:
        check_functions(AlgorithmSpec(loss="no_such_package.loss"))

    assert run_to_end(check(), permanent_errors=permanent_errors()) == NO_RETRY
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("SWERL-ERROR: JobError: algorithm.loss: cannot import no_such_package.loss")


# A Ray that never ends, and work in it.
BLOCKED_EXIT = """
import sys, time, types
ray = types.SimpleNamespace(init=lambda **_: None, shutdown=lambda: time.sleep(60))
sys.modules["ray"] = ray
from swerl_trainer import process
process.SHUTDOWN_SECONDS = 0.2
async def work():
    async with process.on_ray():
        {script}
sys.exit(process.run_to_end(work()))
"""


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [("print('done')", 0, "done"), ("raise ValueError('no tokens')", 1, "SWERL-ERROR: ValueError: no tokens")],
)
def test_process_that_ray_blocks_ends_with_the_status_of_its_work(script: str, code: int, message: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BLOCKED_EXIT.format(script=script)], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == code, ended.stderr
    assert "Ray did not shut down in 0.2 s" in ended.stdout
    assert message in ended.stdout.splitlines() and (code == 0 or ended.stdout.splitlines()[-1] == message)


# Work whose clean-up SIGTERM meets a second time, as `timeout` sends it: to the process, then to its group.
SLOW_CLEAN_UP = """
import asyncio, os, signal, sys, types
sys.modules["ray"] = types.SimpleNamespace(init=lambda **_: None, shutdown=lambda: None)
from swerl_trainer import process
async def work():
    async with process.on_ray():
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.1)
            print("clean")
sys.exit(process.run_to_end(work()))
"""


def test_second_sigterm_does_not_cut_the_clean_up_short() -> None:
    ended = subprocess.run([sys.executable, "-c", SLOW_CLEAN_UP], capture_output=True, text=True, timeout=50)
    assert ended.stdout.splitlines()[-2:] == ["clean", "SWERL-ERROR: interrupted by SIGTERM"], ended.stderr
    assert ended.returncode == INTERRUPTED
