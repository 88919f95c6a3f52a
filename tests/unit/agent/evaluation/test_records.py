"""The results of an evaluation survive what happens to the process, and amount to what they should."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from swerl_agent.evaluation import Redo, ResultsError, SampleRecord, SampleRecords, merge, predictions, summarise
from swerl_agent.evaluation.summary import pass_at_k, wilson

from tests.full_disk import files_end_at

GOOD = SampleRecord("a__a-1", 0, True, True, "submitted", "resolved", "submission", 3, None, 12.5, "run-1")
BAD = replace(GOOD, sample=1, resolved=False, verdict="unresolved")
LOST = replace(GOOD, instance_id="b__b-1", valid=False, resolved=False, exit_status="lost", verdict="", run_dir="")


def test_records_are_read_back(tmp_path: Path) -> None:
    for record in (GOOD, BAD, LOST):
        SampleRecords(tmp_path).add(record)
    reopened = SampleRecords(tmp_path)
    assert reopened.all == [GOOD, BAD, LOST]
    assert [reopened.has_valid_record(record.sample_id) for record in (GOOD, BAD, LOST)] == [True, True, False]


def test_last_record_of_a_sample_counts(tmp_path: Path) -> None:
    records = SampleRecords(tmp_path)
    records.add(LOST)
    records.add(replace(LOST, valid=True, resolved=True))
    assert [record.resolved for record in SampleRecords(tmp_path).all] == [True]


def test_line_that_a_crash_cut_short_is_dropped_and_written_over(tmp_path: Path) -> None:
    SampleRecords(tmp_path).add(GOOD)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes() + b'{"instance_id": "a__a')
    records = SampleRecords(tmp_path)
    assert records.all == [GOOD]
    records.add(BAD)
    assert SampleRecords(tmp_path).all == [GOOD, BAD]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b'{"instance_id": "a"}', b"\xff\xfe"])
def test_another_unreadable_line_is_named(tmp_path: Path, line: bytes) -> None:
    SampleRecords(tmp_path).add(GOOD)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(ResultsError, match=r"not a result: .*results\.jsonl:2"):
        SampleRecords(tmp_path)


def test_pass_at_k_is_the_unbiased_estimate() -> None:
    assert pass_at_k(4, 0, 2) == 0.0
    assert pass_at_k(4, 1, 1) == 0.25
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(4, 3, 2) == 1.0


def test_interval_is_wide_for_few_tasks_and_never_of_no_width() -> None:
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)


def test_sample_ended_by_infrastructure_is_in_no_rate() -> None:
    summary = summarise([GOOD, BAD, LOST], model="m", data="d", arguments={})
    assert (summary["total"], summary["samples"], summary["resolved"], summary["errors"]) == (2, 3, 1, 1)
    assert summary["resolve_rate"] == 0.5
    assert summary["pass_at_k"]["2"]["rate"] == 1.0


def test_ids_have_the_names_of_the_harness() -> None:
    empty = replace(BAD, instance_id="c__c-1", sample=0, patch_source=None)
    summary = summarise([GOOD, BAD, LOST, empty], model="m", data="d", arguments={})
    ids = {name.removesuffix("_ids"): found for name, found in summary.items() if name.endswith("_ids")}
    assert ids == {
        "submitted": ["a__a-1", "b__b-1", "c__c-1"],
        "completed": ["a__a-1"],
        "resolved": ["a__a-1"],
        "unresolved": [],
        "empty_patch": ["c__c-1"],
        "error": ["b__b-1"],
    }
    counts = {name: summary[f"{name}_instances"] for name in [*ids, "total"]}
    assert counts == {**{name: len(found) for name, found in ids.items()}, "total": 3}


def test_predictions_hold_patches_byte_by_byte(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "patch.diff").write_bytes(b"-a\r\n+\xff\r\n")
    found = predictions(tmp_path, [GOOD], "m")["a__a-1"]["model_patch"]
    assert found == "-a\r\n+\udcff\r\n"


def test_predictions_use_the_first_valid_sample(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "patch.diff").write_text("diff --git a/x b/x\n")
    found = predictions(tmp_path, [BAD, GOOD, LOST], "m")
    assert found["a__a-1"] == {
        "model_name_or_path": "m", "instance_id": "a__a-1", "model_patch": "diff --git a/x b/x\n",
    }  # fmt: skip
    assert found["b__b-1"]["model_patch"] == ""
    lost, kept = replace(GOOD, valid=False, run_dir=""), replace(GOOD, sample=GOOD.sample + 5)
    assert predictions(tmp_path, [lost, kept], "m") == {"a__a-1": found["a__a-1"]}


def test_shards_are_merged_and_a_duplicate_sample_is_an_error(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    SampleRecords(first).add(GOOD)
    SampleRecords(second).add(replace(LOST, valid=True))
    assert [r.instance_id for r in merge(tmp_path / "all", [first, second]).all] == ["a__a-1", "b__b-1"]
    with pytest.raises(ResultsError, match="in another shard"):
        merge(tmp_path / "twice", [first, first])
    with pytest.raises(ResultsError, match="no results"):
        merge(tmp_path / "none", [tmp_path / "missing"])


def test_merge_may_be_repeated_and_follows_shards_that_went_on(tmp_path: Path) -> None:
    first, second, merged = tmp_path / "one", tmp_path / "two", tmp_path / "all"
    SampleRecords(first).add(GOOD)
    SampleRecords(second).add(LOST)
    assert [merge(merged, [first, second]).all for _ in range(2)] == [merge(merged, [first, second]).all] * 2
    assert len((merged / "results.jsonl").read_text().splitlines()) == 2
    found = replace(LOST, valid=True, resolved=True, run_dir="run-2")
    SampleRecords(second).add(found)
    SampleRecords(first).add(BAD)
    expected = [replace(each, run_dir=f"../{shard}/{each.run_dir}") for shard, each in
              (("one", GOOD), ("one", BAD), ("two", found))]  # fmt: skip
    assert merge(merged, [first, second]).all == SampleRecords(merged).all == expected


def test_merge_only_adds_to_the_folder(tmp_path: Path) -> None:
    first, second, merged = tmp_path / "one", tmp_path / "two", tmp_path / "all"
    SampleRecords(first).add(GOOD)
    SampleRecords(second).add(BAD)
    merge(merged, [first])
    assert [record.sample_id for record in merge(merged, [second]).all] == [GOOD.sample_id, BAD.sample_id]
    three, before_merge = tmp_path / "three", (merged / "results.jsonl").read_bytes()
    SampleRecords(three).add(GOOD)
    with pytest.raises(ResultsError, match=r"has sample 0 of a__a-1 from '\.\./one' already"):
        merge(merged, [three])
    with pytest.raises(ResultsError, match="cannot be a shard of it"):
        merge(first, [first, second])
    assert (merged / "results.jsonl").read_bytes() == before_merge
    assert [record.sample_id for record in merge(merged, [three], replace_existing=True).all] == [GOOD.sample_id]


def test_killed_merge_is_atomic_and_repeatable(tmp_path: Path) -> None:
    first, merged = tmp_path / "one", tmp_path / "all"
    for record in (GOOD, BAD):
        SampleRecords(first).add(record)
    with files_end_at(300), pytest.raises(OSError, match="is unchanged"):
        merge(merged, [first])
    assert SampleRecords(merged).all == []
    SampleRecords(merged).add(replace(GOOD, run_dir="../one/run-1"))  # as one that wrote line by line may have left it
    with (merged / "results.jsonl").open("ab") as file:
        file.write(b'{"instance_id": "a__a')
    assert [record.sample_id for record in merge(merged, [first]).all] == [GOOD.sample_id, BAD.sample_id]
    assert [record.sample_id for record in SampleRecords(merged).all] == [GOOD.sample_id, BAD.sample_id]


def test_file_has_the_common_format(tmp_path: Path) -> None:
    SampleRecords(tmp_path).add(GOOD)
    row = json.loads((tmp_path / "results.jsonl").read_text())
    columns = {"instance_id", "resolved", "exit_status", "patch_source", "n_steps", "error", "elapsed", "run_dir"}
    assert columns <= row.keys()


def test_killed_redo_resumes_and_repeats_no_sample(tmp_path: Path) -> None:
    records = SampleRecords(tmp_path)
    for record in (GOOD, BAD):
        records.add(record)
    sample_ids = {GOOD.sample_id, BAD.sample_id}
    first_redo = Redo(tmp_path)
    first_redo.choose(records, sample_ids, "all")
    assert not records.has_valid_record(GOOD.sample_id) and not records.has_valid_record(BAD.sample_id)
    records.add(replace(GOOD, resolved=False))
    first_redo.done(records)  # the process ends here, with one of the two made again

    reopened = SampleRecords(tmp_path)
    first_redo = Redo(tmp_path)
    first_redo.choose(reopened, sample_ids, "all")  # the same command
    assert reopened.has_valid_record(GOOD.sample_id) and not reopened.has_valid_record(BAD.sample_id)
    reopened.add(BAD)
    first_redo.done(reopened)
    assert not list(tmp_path.glob("redo*"))

    last = SampleRecords(tmp_path)
    Redo(tmp_path).choose(last, sample_ids, "unresolved")
    assert not last.has_valid_record(GOOD.sample_id), "once it is through, a redo may be asked for again"


@pytest.mark.parametrize(
    ("mode", "remaining"), [("unresolved", [False, True]), ("all", [False, False]), (None, [True, True])]
)
def test_redo_selects_by_result_among_the_selected_tasks(
    tmp_path: Path, mode: Literal["unresolved", "all"] | None, remaining: list[bool]
) -> None:
    records, other_record = SampleRecords(tmp_path), replace(BAD, instance_id="c__c-1")
    for record in (BAD, GOOD, other_record):
        records.add(record)
    Redo(tmp_path).choose(records, {BAD.sample_id, GOOD.sample_id}, mode)
    assert [records.has_valid_record(record.sample_id) for record in (BAD, GOOD)] == remaining
    assert records.has_valid_record(other_record.sample_id), "it is not among the tasks of this run"
