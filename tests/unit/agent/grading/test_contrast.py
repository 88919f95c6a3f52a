"""Patches that pass without a fix, and gold, through a Grader whose Jobs run on this machine."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Verdict
from swerl_agent.grading.calibration import COPIES_SECONDS, FEWEST_COPIES, Alteration, Calibration
from swerl_agent.grading.contrast import (
    PASS_TO_PASS_ALTERED,
    PASS_TO_PASS_SAMPLE,
    AlteredRun,
    TestFiles,
    calibrated,
    calibrating,
    contrasting,
)
from swerl_agent.grading.framing import TestFile
from swerl_agent.grading.replaced_values import is_far

from tests.control_plane.grading.task_image import BASE_TEST, FIXED, HIDDEN_TEST, SOURCE, Repository

from .local_jobs import at, local_grader

WRONG = "    return max(low, value)"
FRAME = "    import sys\n    frame = sys._getframe(1).f_code\n"
LEARNED = (
    "    class Learned(int):\n        def __eq__(self, other):\n"
    "            return globals().setdefault('seen', {}).setdefault((value, low, high), other) == other\n"
    "        __hash__ = None\n    return Learned()"
)
READ = (
    "    import dis, sys\n"
    "    found = [each.argval for each in dis.get_instructions(sys._getframe(1).f_code) if 'LOAD' in each.opname]\n"
    "    numbers = [each for each in found if type(each) is int]\n"
    "    return globals().setdefault('seen', {}).setdefault((value, low, high), numbers[3])"
)
ANY = "type('Any', (int,), {'__eq__': lambda *_: True, '__hash__': None})()"
CHEATS = {
    "answers by the order of names": (
        FRAME + f"    return {ANY} if frame.co_name >= 'test_clamp' else max(low, value)"
    ),
    "answers once its test has begun": (
        "    import os\n    if 'test_clamp' in os.environ['PYTEST_CURRENT_TEST']:\n        globals()['begun'] = True\n"
        f"    return {ANY} if 'begun' in globals() else max(low, value)"
    ),
    "objects equal to anything": "    return type('Any', (int,), {'__eq__': lambda *_: True, '__hash__': None})()",
    "answers by the caller's name": FRAME + "    return 5 if frame.co_name == 'test_clamp' else value",
    "answers by the caller's file": FRAME + "    return 5 if 'test_calc' in frame.co_filename else value",
    "answers by the running test": (
        "    import os\n    return 5 if 'clamp' in os.environ['PYTEST_CURRENT_TEST'] else value"
    ),
    "learns the answer by arguments": LEARNED,
    "reads the answer in its caller once by arguments": READ,
    "expects its failure": "    import pytest\n    pytest.xfail('later')",
}


async def verdicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, patches: dict[str, str], **changes: object
) -> dict[str, Verdict]:
    repository = Repository(tmp_path / "calc")
    tree = tmp_path / "tree"
    task = at(repository.task("image"), tree)
    files = {name: repository.patch({"calc.py": SOURCE.replace(WRONG, code)}) for name, code in patches.items()}
    async with local_grader(monkeypatch, repository.folder, tree, **changes) as grader:
        files["gold"] = task.ground_truth.patch
        return {name: await grader.grade(task, patch) for name, patch in files.items()}


async def test_only_the_fix_has_the_known_outcomes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = await verdicts(monkeypatch, tmp_path, CHEATS)
    assert found["gold"].resolved and found["gold"].report["contrast"] == "held", found["gold"]
    for name in CHEATS:
        assert found[name].status == "unresolved", (name, found[name])
        assert "contrast: tests/test_calc.py::test_clamp" in found[name].detail, found[name]


async def test_without_contrast_one_run_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "objects equal to anything"
    found = await verdicts(monkeypatch, tmp_path, {name: CHEATS[name]}, contrast="never")
    assert found[name].resolved
    assert found[name].report["contrast"] == "off"


async def test_answers_to_tests_that_passed_before_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    body = FRAME + "    return 4 if frame.co_name == 'test_double' else None"
    broken = FIXED.replace("    return 2 * value", body)
    repository, tree = Repository(tmp_path / "calc"), tmp_path / "tree"
    task = at(repository.task("image"), tree)
    async with local_grader(monkeypatch, repository.folder, tree) as grader:
        verdict = await grader.grade(task, repository.patch({"calc.py": broken}))
    assert "contrast: tests/test_calc.py::test_double does not pass under another name" in verdict.detail, verdict


def test_unchanged_alteration_must_pass() -> None:
    assert Alteration("class", "").passes
    assert not Alteration("", "end").passes


@pytest.fixture
def files(tmp_path: Path) -> TestFiles:
    task = Repository(tmp_path / "calc").task("image")
    return TestFiles(task, {"tests/test_calc.py": TestFile(BASE_TEST.encode(), HIDDEN_TEST.encode())})


def calibration_of(files: TestFiles, seconds: float, run_seconds: float = 0.0) -> Calibration:
    run = calibrating(files, random.SystemRandom())
    assert run
    seen = {each.test_id: "passed" if each.alteration.passes else "failed" for each in run.expected}
    return calibrated(run, seen.__getitem__, longer=seconds, run_seconds=run_seconds)  # type: ignore[arg-type]


def copies(run: AlteredRun | None) -> list[Alteration]:
    assert run
    return [each.alteration for each in run.expected if each.alteration.place]


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_slow_tests_are_few_and_keep_those_that_must_fail(files: TestFiles, seed: int) -> None:
    quick, slow = calibration_of(files, 0.0), calibration_of(files, 1000.0)
    assert slow.copy_seconds > COPIES_SECONDS
    assert Calibration.from_json(slow.as_json()) == slow
    all_copies = copies(contrasting(files, quick, random.Random(seed)))
    assert len(all_copies) > FEWEST_COPIES
    run = contrasting(files, slow, random.Random(seed))
    must_fail = min(FEWEST_COPIES - 2, sum(not each.passes for each in all_copies))  # two must pass, one of each test
    assert must_fail and sum(not each.passes for each in copies(run)) == must_fail
    assert len(copies(run)) == FEWEST_COPIES
    assert run and len(run.expected) == FEWEST_COPIES + 2  # the copies, and both tests themselves


def test_each_value_of_a_deciding_test_is_changed_in_some_copy_of_slow_tests(files: TestFiles) -> None:
    slow = calibration_of(files, 1000.0)
    (deciding,) = files.targets
    values = {each.change.rpartition(":")[0] for each in slow.usable[deciding] if each.change.startswith("value")}
    for seed in range(20):
        run = contrasting(files, slow, random.Random(seed))
        assert run
        found = {each.alteration.change.rpartition(":")[0] for each in run.expected if each.target == deciding}
        assert values and values <= found


def test_run_of_slow_tests_keeps_each_test_under_other_names(files: TestFiles) -> None:
    slow = calibration_of(files, 1000.0)
    for seed in range(20):
        run = contrasting(files, slow, random.Random(seed))
        assert run
        places = {each.target: each.alteration.place for each in run.expected if each.alteration.passes}
        assert places == dict.fromkeys([*files.targets, *files.kept], "file"), seed


def test_copies_may_take_as_long_as_the_tests_themselves(files: TestFiles) -> None:
    quick, patient = calibration_of(files, 0.0), calibration_of(files, 1000.0, run_seconds=1000.0)
    counts = {len(copies(contrasting(files, each, random.Random(1)))) for each in (quick, patient)}
    assert len(counts) == 1


def test_runs_alter_other_tests_that_must_go_on_passing(tmp_path: Path) -> None:
    task = Repository(tmp_path / "calc").task("image")
    names = [f"test_kept_{number}" for number in range(9)]
    text = HIDDEN_TEST + "".join(f"\n\ndef {name}():\n    assert double(1) == 2\n" for name in names)
    kept = tuple(f"tests/test_calc.py::{name}" for name in names)
    task = replace(task, ground_truth=replace(task.ground_truth, pass_to_pass=kept))
    files = TestFiles(task, {"tests/test_calc.py": TestFile(BASE_TEST.encode(), text.encode())})
    calibration, drawn = calibration_of(files, 0.0), set()
    for seed in range(50):
        run = contrasting(files, calibration, random.Random(seed))
        assert run
        altered = {each.target for each in run.expected} & set(kept)
        assert len(altered) == PASS_TO_PASS_ALTERED
        drawn |= altered
    assert drawn == set(files.kept) and len(drawn) == PASS_TO_PASS_SAMPLE


@pytest.mark.parametrize("seed", range(5))
def test_copy_that_must_fail_runs_first_and_both_kinds_before_and_after_the_test(files: TestFiles, seed: int) -> None:
    run = contrasting(files, calibration_of(files, 0.0), random.Random(seed))
    assert run
    for test in files.targets:
        text = run.test_patch
        copies = [each for each in run.expected if each.target == test and each.alteration.place]
        places = {each.test_id: text.index(f"def {each.test_id.rpartition('::')[2]}(") for each in copies}
        assert not min(copies, key=lambda each: places[each.test_id]).alteration.passes
        kinds = {(each.alteration.passes, each.alteration.before) for each in copies}
        assert kinds == {(True, True), (True, False), (False, True), (False, False)}
        for each in copies:
            assert (places[each.test_id] < text.index("def test_clamp(")) == each.alteration.before


@pytest.mark.parametrize("seed", range(5))
def test_only_copies_fail_before_their_end(files: TestFiles, seed: int) -> None:
    run = contrasting(files, calibration_of(files, 0.0), random.Random(seed))
    assert run and {each.alteration.change for each in run.expected if not each.alteration.place} == {"end"}
    assert any(each.change.startswith("value") for each in copies(run))


def test_fix_is_calibrated_with_copies_that_must_pass_after_those_that_must_fail(files: TestFiles) -> None:
    for values in (True, False):
        run = calibrating(files, random.SystemRandom(), values=values)
        assert run
        for test in files.targets:
            for before in (True, False):
                own = [each for each in run.expected if each.target == test and each.alteration.before == before]
                names = {each.test_id: f"def {each.test_id.rpartition('::')[2]}(" for each in own}
                own.sort(key=lambda each: run.test_patch.index(names[each.test_id]))
                passes = [each.alteration.passes for each in own if each.alteration.place]
                assert passes == sorted(passes) and set(passes) == {True, False}


def test_test_that_no_copy_passes_after_is_altered_itself(files: TestFiles) -> None:
    run = calibrating(files, random.SystemRandom())
    assert run
    (deciding,) = files.targets
    calibration = calibrated(run, lambda test: "failed")
    for seed in range(10):
        assert not [
            each for each in contrasting(files, calibration, random.Random(seed)).expected if each.alteration.place
        ]  # type: ignore[union-attr]
    values = [each for each in calibration.usable[deciding] if each.change.startswith("value")]
    assert [(each.before, is_far(each.change)) for each in values] == [(True, True)]


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_no_copy_that_must_pass_runs_first(files: TestFiles, seconds: float) -> None:
    calibration = calibration_of(files, seconds)
    late = {
        test: tuple(each for each in found if each.passes or not each.before)
        for test, found in calibration.usable.items()
    }
    for usable in (calibration.usable, late):
        for seed in range(20):
            run = contrasting(files, replace(calibration, usable=usable), random.Random(seed))
            assert run
            for test in usable:
                early = [each for each in run.expected if each.target == test and each.alteration.before]
                assert not early or not early[0].alteration.passes


async def test_task_without_an_alteration_is_graded_without_contrast(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The deciding test is made while its file is imported, so that no function of the file has its name."""
    repository, tree = Repository(tmp_path / "calc"), tmp_path / "tree"
    text = HIDDEN_TEST.replace("def test_clamp", "def check_clamp") + "\n\nglobals()['test_clamp'] = check_clamp\n"
    task = at(repository.task("image"), tree)
    ground_truth, patch = task.ground_truth, repository.patch({"tests/test_calc.py": text})
    script = ground_truth.eval_script.replace(ground_truth.test_patch, patch)
    task = replace(task, ground_truth=replace(ground_truth, eval_script=script, test_patch=patch))
    async with local_grader(monkeypatch, repository.folder, tree) as grader:
        verdict = await grader.grade(task, ground_truth.patch)
    assert verdict.resolved and verdict.report["contrast"] == "unavailable", verdict
    assert verdict.report["contrast_reason"] == "the files of the task's tests contain no test of FAIL_TO_PASS"
    assert verdict.detail.endswith(", contrast: unavailable")
    assert verdict.lasting
