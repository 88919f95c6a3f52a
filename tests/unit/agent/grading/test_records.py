"""Records of gradings: the end of the log and the tests' names, beside artifacts that hold neither."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.episode import Episode, write_artifacts
from swerl_agent.grading import Verdict, record_content, record_path
from swerl_agent.grading.cache import VerdictCache
from swerl_agent.grading.record import LOG_BYTES, NAMED_TESTS, log_end
from swerl_agent.trajectories.gradings import GradedTest, read_grading, stored_grading

from tests.control_plane.grading.task_image import SOURCE, Repository

from .local_jobs import at, local_grader

LOUD = "    print('seen by the test')\n    return value"


async def test_graded_episode_leaves_log_and_tests_beside_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository, tree = Repository(tmp_path / "calc"), tmp_path / "tree"
    task = at(repository.task("image"), tree)
    patch = repository.patch({"calc.py": SOURCE.replace("    return max(low, value)", LOUD)})
    async with local_grader(monkeypatch, repository.folder, tree) as grader:
        verdict = await grader.grade(task, patch)
    folder = write_artifacts(tmp_path / "out", Episode(task.instance_id, "g", 0, patch=patch), verdict)
    found = read_grading(folder)
    assert found and not verdict.resolved
    (failed,) = task.ground_truth.fail_to_pass
    assert GradedTest("FAIL_TO_PASS", failed, "failed") in found.tests and found.tests[0].outcome == "failed"
    assert "passed" in {test.outcome for test in found.tests}
    assert "seen by the test" in found.log and failed in found.log
    for file in folder.iterdir():
        assert failed not in file.read_text() and '"log"' not in file.read_text(), file


def test_verdict_from_the_cache_has_its_log(tmp_path: Path) -> None:
    verdict = Verdict("resolved", {"a": 1}, log="1 passed\udc80")
    for directory in (tmp_path, None):
        cache = VerdictCache(directory)
        cache.put("k", verdict)
        assert cache.get("k") == replace(verdict, cached=True)
    assert VerdictCache(tmp_path).get("k") == replace(verdict, cached=True)


def test_log_and_names_are_bounded() -> None:
    assert log_end(b"short\n") == "short\n"
    end = log_end(b"x" * 10 + b"y" * LOG_BYTES)
    assert end == f"[10 bytes before this are not kept]\n{'y' * LOG_BYTES}"
    names = [f"t{number}" for number in range(NAMED_TESTS + 5)]
    report = {"tests_status": {"PASS_TO_PASS": {"success": names, "failure": []}}}
    assert len(stored_grading(json.loads(record_content(Verdict("resolved", report, log="l")) or b"")).tests) == 1_000


def test_patch_that_did_not_run_has_no_record(tmp_path: Path) -> None:
    folder = write_artifacts(tmp_path, Episode("t", "g", 0, patch="x"), Verdict("policy_blocked", detail="no"))
    assert not record_path(folder).parent.exists() and read_grading(folder) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"tests": 7, "log": []}', '{"tests": {"A": {"success": 1}}, "never_appeared": {}}']
)
def test_any_file_is_a_record_or_none(tmp_path: Path, content: str) -> None:
    path = record_path(tmp_path / "episode")
    path.parent.mkdir()
    path.write_text(content)
    found = read_grading(tmp_path / "episode")
    assert found is None or found.tests == ()


def test_test_that_never_ran_differs_from_one_that_failed() -> None:
    report = {"tests_status": {"FAIL_TO_PASS": {"success": [], "failure": ["a", "b"]}}, "never_appeared": {"b": None}}
    content = record_content(Verdict("unresolved", report, log="l"))
    outcomes = {test.name: test.outcome for test in stored_grading(json.loads(content or b"")).tests}
    assert outcomes == {"a": "failed", "b": "never ran"}
