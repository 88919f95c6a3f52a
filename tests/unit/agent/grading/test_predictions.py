"""Files of predictions, and the reports on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.predictions import Prediction, PredictionError, ReportFolder, read_predictions, summary
from swerl_agent.grading.verdict import VerdictStatus

ROW = {"instance_id": "o__r-1", "model_name_or_path": "org/model", "model_patch": "diff"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("preds.json", json.dumps([ROW])),
        ("preds.json", json.dumps({"o__r-1": {"model_name_or_path": "org/model", "model_patch": "diff"}})),
        ("preds.jsonl", json.dumps(ROW) + "\n\n"),
    ],
)
def test_three_shapes_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_predictions(tmp_path / name) == [Prediction("o__r-1", "org/model", "diff")]


def test_null_patch_is_no_patch(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps([{**ROW, "model_patch": None}]))
    assert read_predictions(tmp_path / "p.json")[0].patch == ""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.jsonl", json.dumps(ROW) + "\n{", "p.jsonl:2: not valid JSON"),
        ("p.jsonl", '{"instance_id": "a"}', "p.jsonl:1: field model_patch is missing"),
        ("p.json", '[{"model_patch": ""}]', "item 0: field instance_id is missing"),
        ("p.json", '[{"instance_id": "a", "model_patch": 1}]', "field model_patch must be a string"),
        ("p.json", json.dumps([ROW, ROW]), "more than once: o__r-1"),
        ("p.json", "[]", "holds no prediction"),
        ("p.json", "3", "must be a list"),
        ("p.json", "[3]", "must be an object"),
    ],
)
def test_malformed_file_is_named_with_its_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PredictionError, match=message):
        read_predictions(tmp_path / name)


def test_report_is_found_again_for_the_same_patch(tmp_path: Path) -> None:
    folder, prediction = ReportFolder(tmp_path), Prediction("o__r-1", "org/model", "diff")
    assert folder.done(prediction) is None
    folder.write(prediction, Verdict("resolved", {"patch_successfully_applied": True}, detail="1/1"))
    written = json.loads((tmp_path / "org__model/o__r-1/report.json").read_text())["o__r-1"]
    assert written["resolved"]
    assert written["patch_successfully_applied"]
    assert folder.done(prediction) == written
    assert folder.done(Prediction("o__r-1", "org/model", "another")) is None


@pytest.mark.parametrize("patch", ["-a\r\n+b\r\n", "+\udcff\n", "+\u00e9\n"])
def test_patch_is_kept_byte_by_byte(tmp_path: Path, patch: str) -> None:
    (tmp_path / "p.json").write_text(json.dumps([{**ROW, "model_patch": patch}]))
    (prediction,) = read_predictions(tmp_path / "p.json")
    folder = ReportFolder(tmp_path)
    report = folder.write(prediction, Verdict("unresolved"))
    written = (tmp_path / "org__model/o__r-1/patch.diff").read_bytes()
    assert written == patch.encode("utf-8", "surrogateescape")
    assert folder.done(prediction) == report


def test_script_and_log_are_stored_with_the_report(tmp_path: Path) -> None:
    folder, prediction = ReportFolder(tmp_path), Prediction("o__r-1", "org/model", "diff")
    folder.write_log(prediction, "pytest\n", b"PASSED \xff\n")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "org__model/o__r-1").iterdir()}
    assert kept == {"eval.sh": b"pytest\n", "test_output.txt": b"PASSED \xff\n"}


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict("infra_error"),
        Verdict("timeout", {"seconds": 60.0}),
        Verdict("unresolved", {"exhausted": "memory"}),
        Verdict("unresolved", {"oom_kills": 1}, detail="FAIL_TO_PASS 0/1"),
        Verdict("unresolved", detail="the tests were killed by SIGKILL"),
        Verdict("unresolved", {"limited": True}, detail="every run was cut short"),
    ],
    ids=lambda verdict: verdict.detail or verdict.status,
)
def test_what_infrastructure_or_a_limit_decided_is_graded_again(tmp_path: Path, verdict: Verdict) -> None:
    folder, prediction = ReportFolder(tmp_path), Prediction("o__r-1", "m", "diff")
    report = folder.write(prediction, verdict)
    assert report["infra_failure"] == (verdict.status == "infra_error")
    assert folder.done(prediction) is None


@pytest.mark.parametrize("status", ["resolved", "unresolved", "patch_apply_failed", "policy_blocked"])
def test_what_the_patch_decided_is_not_graded_again(tmp_path: Path, status: VerdictStatus) -> None:
    folder, prediction = ReportFolder(tmp_path), Prediction("o__r-1", "m", "diff")
    report = folder.write(prediction, Verdict(status, {"oom_kills": 0}))
    assert folder.done(prediction) == report


def test_summary_holds_every_prediction_once(tmp_path: Path) -> None:
    folder = ReportFolder(tmp_path)
    verdicts = {
        "a": Verdict("resolved"),
        "b": Verdict("unresolved", {"tampering": ["x"]}),
        "c": Verdict("infra_error"),
        "d": Verdict("unresolved"),
    }
    reports = {name: folder.write(Prediction(name, "m", "" if name == "d" else "x"), v) for name, v in verdicts.items()}
    counted = summary(reports, ["e"], total=9)
    assert (counted["total_instances"], counted["submitted_ids"]) == (9, ["a", "b", "c", "d", "e"])
    assert counted["completed_ids"] == ["a", "b"]
    assert counted["submitted_instances"] == 5
    assert counted["completed_instances"] == 2
    kinds = ("resolved", "unresolved", "error", "empty_patch", "unknown", "tampering")
    assert [counted[f"{kind}_ids"] for kind in kinds] == [["a"], ["b"], ["c"], ["d"], ["e"], ["b"]]
