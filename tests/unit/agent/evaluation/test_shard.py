"""Shards of a SweEval: what they shard out, what they begin again, what the merge says."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.episode import PromptError
from swerl_agent.evaluation import MUST_MATCH, ResultsError, SampleRecord, SampleRecords, write_settings
from swerl_agent.evaluation.folder import set_results_aside
from swerl_agent.evaluation.progress import ProgressReport, progress_of
from swerl_agent.evaluation.shard import (
    Shard,
    ShardFolders,
    load_shard_tasks,
    merge_shards,
    run_shard,
    shard_metadata,
)
from swerl_agent.tasks.selection import shard_slice
from swerl_api import EvaluationFile
from swerl_kube import NotFound

from tests.kubeconfig import write_kubeconfig
from tests.unit.agent.episode.conftest import PLAIN, make_tokenizer
from tests.unit.agent.tasks.rows import swebench

SOLVED = SampleRecord("a__a-1", 0, True, True, "submitted", "resolved", "submission", 3, None, 12.5, "run-1")
FAILED = replace(SOLVED, instance_id="b__b-1", resolved=False, verdict="unresolved", run_dir="")
LOST = replace(FAILED, instance_id="c__c-1", valid=False, verdict="", exit_status="lost")


def evaluation_file(**spec: Any) -> EvaluationFile:
    volume = {"volume": {"persistentVolumeClaim": {"claimName": "runs"}}}
    source = {"persistentVolumeClaim": {"claimName": "tasks"}}
    evaluation_spec = {
        "model": {"endpoint": {"url": "http://router:30000", "tokenizer": source}},
        "tasks": {"source": source, "format": "jsonl"},
        "image": "trainer:1",
        "output": volume | {"path": "evaluations"},
        "shards": 2,
    }
    return EvaluationFile.model_validate(
        {
            "name": "nightly", "namespace": "ns", "uid": "uid-1", "engine": "http://router:30000",
            "tokenizer": "/swerl/model", "dtype": "bfloat16", "spec": evaluation_spec | spec,
        }
    )  # fmt: skip


class FakeConfigMaps:
    """An API server that keeps ConfigMaps."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.writes = 0

    async def patch(self, api: str, resource: str, namespace: str, name: str, body: Mapping[str, Any]) -> None:
        if name not in self.kept:
            raise NotFound("GET", 404, "NotFound", name)
        self.writes += 1
        self.kept[name] |= body

    async def create(self, resource: str, body: Mapping[str, Any], *, namespace: str) -> None:
        self.writes += 1
        self.kept[body["metadata"]["name"]] = dict(body)

    def progress(self, name: str) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.kept[name]["data"]["progress.json"])
        return parsed


def found(folder: Path) -> list[str]:
    return [record.instance_id for record in SampleRecords(folder).all]


def fill(folder: Path, *records: SampleRecord) -> Path:
    kept = SampleRecords(folder)
    for record in records:
        kept.add(record)
    return folder


def test_redo_of_all_happens_once_per_request(tmp_path: Path) -> None:
    fill(tmp_path, SOLVED, FAILED)
    write_settings(tmp_path, {"model": "old"})
    set_results_aside(tmp_path, "run-2", "all")
    assert found(tmp_path) == []
    write_settings(tmp_path, {"model": "new"})
    fill(tmp_path, FAILED)
    set_results_aside(tmp_path, "run-2", "all")
    assert found(tmp_path) == ["b__b-1"]


def test_redo_of_unresolved_keeps_resolved_samples(tmp_path: Path) -> None:
    fill(tmp_path, SOLVED, FAILED)
    set_results_aside(tmp_path, "run-2", "unresolved")
    assert found(tmp_path) == ["a__a-1"]
    (tmp_path / "results.jsonl").unlink()  # as if killed before the resolved ones were back
    set_results_aside(tmp_path, "run-2", "unresolved")
    assert found(tmp_path) == ["a__a-1"]
    fill(tmp_path, FAILED)
    set_results_aside(tmp_path, "run-2", "unresolved")
    assert found(tmp_path) == ["a__a-1", "b__b-1"]


def test_first_run_of_a_folder_repeats_nothing(tmp_path: Path) -> None:
    set_results_aside(tmp_path, "run-1", "all")
    fill(tmp_path, SOLVED)
    set_results_aside(tmp_path, "run-1", "all")
    assert found(tmp_path) == ["a__a-1"]


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    write_settings(tmp_path, {"model": "m", "sample_options": {"temperature": 0}}, must_match=MUST_MATCH)
    write_settings(tmp_path, {"model": "m", "sample_options": {"temperature": 0}}, must_match=MUST_MATCH)
    with pytest.raises(ResultsError, match="holds results of sample_options"):
        write_settings(tmp_path, {"model": "m", "sample_options": {"temperature": 1}}, must_match=MUST_MATCH)


def shard_folder_of(folder: Path, record: SampleRecord, temperature: float) -> str:
    fill(folder, record)
    write_settings(
        folder, {"model": "m", "data": "d", "sample_options": {"agent": "builtin", "temperature": temperature}}
    )
    return str(folder)


def test_shards_are_merged_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = [
        shard_folder_of(tmp_path / "a", replace(SOLVED, run_dir=""), 0.0),
        shard_folder_of(tmp_path / "b", FAILED, 0.0),
    ]
    assert main(["eval", "merge", str(tmp_path / "whole"), *shards]) == 0
    assert found(tmp_path / "whole") == ["a__a-1", "b__b-1"]
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert (summary["samples"], summary["resolved"], summary["model"]) == (2, 1, "m")
    assert summary["args"] == {"agent": "builtin", "temperature": 0.0}
    assert "50" in capsys.readouterr().out
    assert main(["eval", "merge", str(tmp_path / "whole"), *shards]) == 0
    assert found(tmp_path / "whole") == ["a__a-1", "b__b-1"]


def test_shards_with_different_settings_are_not_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = [shard_folder_of(tmp_path / "a", SOLVED, 0.0), shard_folder_of(tmp_path / "b", FAILED, 1.0)]
    assert main(["eval", "merge", str(tmp_path / "whole"), *shards]) == 2
    assert "holds results of sample_options {'temperature': 1.0}, not {'temperature': 0.0}" in capsys.readouterr().err
    assert not (tmp_path / "whole").exists()


def test_shards_cover_the_chosen_tasks_exactly_once(tmp_path: Path) -> None:
    rows = [swebench(f"owner__repo-{number}") for number in range(7)]
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = evaluation_file(
        tasks={
            "source": {"persistentVolumeClaim": {"claimName": "tasks"}},
            "format": "jsonl",
            "shuffle": True,
            "slice": "1:",
        }
    )
    shards = [Shard(file, number, ShardFolders(tasks=tmp_path / "tasks")) for number in range(2)]
    orders = [[task.instance_id for task in load_shard_tasks(shard)] for shard in shards]
    assert orders[0] == orders[1] and len(orders[0]) == 6
    parts = [orders[0][shard_slice(number, 2, 6)] for number in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(orders[0]) and len(parts[0]) == len(parts[1]) == 3


def test_shards_leave_out_what_is_in_quarantine_beside_the_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [swebench(f"owner__repo-{number}") for number in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "quarantine.jsonl").write_text('{"instance_id": "owner__repo-1", "reason": "flaky"}\n')
    tasks = load_shard_tasks(Shard(evaluation_file(), 0, ShardFolders(tasks=tmp_path)))
    assert [task.instance_id for task in tasks] == [f"owner__repo-{number}" for number in (0, 2, 3)]
    assert caplog.messages == [f"1 of 4 tasks at {tmp_path} are in quarantine: owner__repo-1"]


def test_artifacts_of_a_shard_name_model_address_and_limits_and_no_key() -> None:
    file = evaluation_file(agent={"stepLimit": 7, "maxTokensPerTurn": 99})
    file = file.model_copy(update={"engine": "https://user:secret@host:8/v1?key=secret"})
    assert shard_metadata(file) == {
        "model": "nightly", "api_base": "https://host:8/v1", "step_limit": 7, "max_tokens": 99,
    }  # fmt: skip


def test_shards_of_another_division_use_another_folder(tmp_path: Path) -> None:
    shard = Shard(evaluation_file(), 1, ShardFolders(output=tmp_path))
    assert shard.folder == tmp_path / "evaluations" / "nightly" / "shard-1-of-2"


async def test_merge_is_repeatable_and_reports_the_total(tmp_path: Path) -> None:
    file, maps, folders = evaluation_file(), FakeConfigMaps(), ShardFolders(output=tmp_path)
    first, second = (Shard(file, number, folders).folder for number in range(2))
    (first / "run-1").mkdir(parents=True)
    (first / "run-1" / "patch.diff").write_text("diff --git a/x b/x\n")
    write_settings(first, {"model": "qwen"})
    fill(first, SOLVED)
    fill(second, FAILED, LOST)
    for _ in range(2):
        await merge_shards(maps, file, folders)  # type: ignore[arg-type]
    output_folder = tmp_path / "evaluations" / "nightly"
    assert found(output_folder) == ["a__a-1", "b__b-1", "c__c-1"]
    assert SampleRecords(output_folder).all[0].run_dir == "shard-0-of-2/run-1"
    assert json.loads((output_folder / "preds.json").read_text())["a__a-1"] == {
        "model_name_or_path": "qwen", "instance_id": "a__a-1", "model_patch": "diff --git a/x b/x\n",
    }  # fmt: skip
    progress = maps.progress("nightly.eval-merge")
    assert progress == {
        "total": 3, "done": 2, "resolved": 1, "errors": 1, "rate": 0.5, "passAtK": {"1": 0.5}, "progress": "2/3",
    }  # fmt: skip
    assert maps.kept["nightly.eval-merge"]["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


@pytest.mark.parametrize("agent", [{}, {"kind": "mini-swe-agent", "protocol": "mini-swe-agent-2"}])
async def test_shard_without_tasks_is_accepted(agent: Mapping[str, Any], tmp_path: Path) -> None:
    folders = ShardFolders(tasks=tmp_path / "tasks", output=tmp_path / "output")
    (folders.tasks).mkdir()
    (folders.tasks / "rows.jsonl").write_text(json.dumps(swebench("owner__repo-1")))
    tokenizer = make_tokenizer(tmp_path / "tokenizer", PLAIN)
    file, maps = evaluation_file(agent=agent).model_copy(update={"tokenizer": str(tokenizer)}), FakeConfigMaps()
    empty, with_tasks = (Shard(file, number, folders) for number in range(2))
    assert await run_shard(maps, empty)  # type: ignore[arg-type]
    assert maps.progress("nightly.eval-0") == {"total": 1, "done": 0, "resolved": 0, "errors": 0, "progress": "0/1"}
    fill(with_tasks.folder, SOLVED)
    assert (await merge_shards(maps, file, folders))["resolved"] == 1  # type: ignore[arg-type]


async def test_merge_without_prompts_is_reported_after_the_files_are_written(tmp_path: Path) -> None:
    file, maps, folders = evaluation_file(), FakeConfigMaps(), ShardFolders(output=tmp_path)
    unprompted = replace(LOST, exit_status="prompt_failed", error="agent.system_template does not render: line 1")
    for number in range(2):
        fill(Shard(file, number, folders).folder, replace(unprompted, sample=number))
    with pytest.raises(PromptError, match=r"ended all 2 samples, the last at c__c-1: agent\.system_template"):
        await merge_shards(maps, file, folders)  # type: ignore[arg-type]
    summary = json.loads((tmp_path / "evaluations" / "nightly" / "summary.json").read_text())
    assert (summary["errors"], summary["exit_statuses"]) == (2, {"prompt_failed": 2})
    assert maps.progress("nightly.eval-merge")["errors"] == 2


async def test_shard_that_never_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="shard-0-of-2 has no results"):
        await merge_shards(FakeConfigMaps(), evaluation_file(), ShardFolders(output=tmp_path))  # type: ignore[arg-type]


async def test_progress_that_is_known_is_not_written_again(tmp_path: Path) -> None:
    maps = FakeConfigMaps()
    report = ProgressReport(maps, "ns", "p", {})  # type: ignore[arg-type]
    records = SampleRecords(fill(tmp_path, SOLVED, LOST))
    for _ in range(3):
        await report.write(progress_of(records, {"a__a-1", "c__c-1"}, 4))
    assert maps.writes == 1
    assert maps.progress("p") == {"total": 4, "done": 1, "resolved": 1, "errors": 1, "progress": "1/4"}


def test_results_of_other_tasks_do_not_count(tmp_path: Path) -> None:
    records = SampleRecords(fill(tmp_path, SOLVED, FAILED))
    assert progress_of(records, {"b__b-1"}, 4).resolved == 0


def test_file_that_describes_no_evaluation_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text('{"name": "x"}')
    assert main(["eval", "job", "--config", str(path), "--merge"]) == 2
    assert "describes no evaluation" in capsys.readouterr().err


def test_shard_of_another_shard_count_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(evaluation_file().model_dump_json(by_alias=True, exclude_none=True))
    assert EvaluationFile.read(path) == evaluation_file()
    config = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    assert main(["eval", "job", "--config", str(path), "--shard", "0/3", "--kubeconfig", config]) == 2
    assert "has 2 shards" in capsys.readouterr().err


def test_lines_of_a_shard_name_evaluation_and_shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    path = tmp_path / "evaluation.json"
    path.write_text(evaluation_file(logFormat="json").model_dump_json(by_alias=True, exclude_none=True))
    config = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    try:
        main(["eval", "job", "--config", str(path), "--shard", "1/3", "--kubeconfig", config])
        logging.getLogger("test.shard").warning("slow")
    finally:
        root.handlers, root.level = handlers, level
    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    expected = {"namespace": "ns", "evaluation": "nightly", "shard": 1, "level": "warning", "message": "slow"}
    assert line.items() >= expected.items()
