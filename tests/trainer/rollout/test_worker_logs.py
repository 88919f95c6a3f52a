"""Lines that a worker logs about an episode name its step and itself, beside the job's ids, in JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from swerl_kube.logs import LogSettings
from swerl_trainer.rollout.worker import Worker

from .conftest import MEMBERS, REQUEST, Fakes, run


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the process logs; the root logger is afterwards as it was."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = [*root.handlers], root.level
    LogSettings("json", {"job": "demo", "attempt": 2}).configure(stream)
    yield stream
    root.handlers, root.level = handlers, level


async def test_line_about_a_grading_names_job_step_and_episode(
    worker: Worker, fakes: Fakes, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no grader")

    monkeypatch.setattr(fakes, "grade", fails)
    await run(worker, REQUEST, MEMBERS, 1, 0)
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    [line] = [each for each in logged if each["message"].startswith("grading of")]
    expected = {"job": "demo", "attempt": 2, "step": REQUEST.step, "episode": f"{REQUEST.id}/1"}
    assert line.items() >= expected.items() and "RuntimeError: no grader" in line["error"]
