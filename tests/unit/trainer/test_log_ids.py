"""Lines of ranks, and of an evaluation's engines, name what they concern, in JSON."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from swerl_kube.logs import LogSettings
from swerl_trainer.job import Job
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.serving.log import log_of

from tests.unit.agent.evaluation.test_shard import evaluation_file
from tests.unit.kube.test_logs import parsed
from tests.unit.trainer.driver.test_sandbox_file import SPEC


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream for lines; the root logger is afterwards as it was."""
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level


def logged(log: LogSettings, stream: io.StringIO) -> dict[str, object]:
    """One line of a process that logs like this."""
    log.configure(stream)
    logging.getLogger("test.ids").warning("slow")
    [line] = parsed(stream)
    return line


def test_line_of_a_rank_names_job_and_rank(stream: io.StringIO) -> None:
    job = Job("demo", "n", "uid", 2, "demo-2", SPEC.model_copy(update={"log_format": "json"}))
    line = logged(RankConfig.of(job.spec, "model", log=job.log).log_of(3), stream)
    assert line.items() >= {"namespace": "n", "job": "demo", "attempt": 2, "rank": 3, "message": "slow"}.items()


def test_line_of_the_engines_of_an_evaluation_names_it(stream: io.StringIO) -> None:
    line = logged(log_of(evaluation_file(logFormat="json")), stream)
    assert line.items() >= {"namespace": "ns", "evaluation": "nightly", "message": "slow"}.items()
