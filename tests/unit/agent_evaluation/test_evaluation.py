"""An evaluation whose attempts are all made."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from swerl_agent.evaluation import Evaluation, EvaluationSettings, Record, Records
from swerl_agent.tasks import Evaluation as Criteria
from swerl_agent.tasks import Task

TASK = Task("a__a-1", "a/a", "0" * 40, "1", "It breaks.", "image", Criteria("sh", "gold", "", ("t::a",), ()))


async def test_one_that_is_finished_asks_the_cluster_for_nothing(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.add(Record(TASK.instance_id, 0, True, True, "submitted", "resolved", "submission", 3, None, 12.5, "run-1"))
    nothing = cast(Any, None)
    work = Evaluation([TASK], nothing, EvaluationSettings(), records, tmp_path)
    await work.run(nothing, "n", nothing)
    assert work.left == []
