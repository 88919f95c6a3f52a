"""Every contrast run that may be drawn for a test holds a change of a checked value that a forged one does not survive.

The altered tests run in this process, against the code of the patches of `test_forged_checks`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.grading.alterations import Names, edited
from swerl_agent.grading.contrast import AlteredRun, TestFiles, calibrated, calibrating, contrasting
from swerl_agent.grading.framing import TestFile
from swerl_agent.grading.replaced_values import changed

from tests.control_plane.grading.task_image import BASE_TEST, HIDDEN_TEST, SOURCE, Repository

from .test_forged_checks import CHECK, FORGERIES, PASSES, WRONG, Forgery

BY_VALUES = [
    name for name, each in FORGERIES.items() if each.named == PASSES and not each.code and not each.image_files
]
SEEDS = range(15)
SECONDS = (0.0, 1000.0)  # that all copies took: with those of slow tests a run affords few
TEST, PATH = Names("", "test_clamp"), "tests/test_calc.py"


@dataclass
class Plans:
    """Contrast runs of the test that a forgery is for."""

    forgery: Forgery
    files: TestFiles
    known: dict[tuple[str, str], bool] = field(default_factory=dict)

    @classmethod
    def of(cls, forgery: Forgery, folder: Path) -> Plans:
        text = "import pytest\n" + HIDDEN_TEST.replace(CHECK, f"    {forgery.check}")
        task = forgery.task(Repository(folder / "calc"))
        return cls(forgery, TestFiles(task, {PATH: TestFile(BASE_TEST.encode(), text.encode())}))

    def drawn(self, seed: int, seconds: float) -> AlteredRun:
        """The run for a patch after calibration by the fix."""
        rng = random.Random(seed)
        run = calibrating(self.files, rng)
        assert run
        failing = {each.test_id for each in run.expected if not each.alteration.passes}
        survived = {
            each.test_id
            for each in run.expected
            if each.target in self.files.targets
            and each.alteration.change.startswith("value")
            and self.passes(each.alteration.change, self.forgery.fixed)
        }
        calibration = calibrated(run, lambda test: "failed" if test in failing - survived else "passed", longer=seconds)
        found = contrasting(self.files, calibration, rng)
        assert found
        return found

    def values(self, run: AlteredRun) -> list[str]:
        """The changes of the values that the test checks."""
        found = [each.alteration.change for each in run.expected if each.target in self.files.targets]
        return [each for each in found if each.startswith("value")]

    def passes(self, change: str, code: str) -> bool:
        """Whether the test with this change passes with the code."""
        if (change, code) not in self.known:
            self.known[change, code] = self._passes(change, code)
        return self.known[change, code]

    def _passes(self, change: str, code: str) -> bool:
        source = self.files.sources[PATH]
        edit = changed(source, source.functions[TEST][1], change)
        assert edit
        names: dict[str, Any] = {}
        exec(code, names)
        exec(edited(source.text, [edit]).replace("from calc import clamp, double", ""), names)
        try:
            names[TEST.function]()
        except Exception:
            return False
        return True


@pytest.mark.parametrize("name", BY_VALUES)
def test_every_run_holds_a_change_that_a_forged_value_passes_with(tmp_path: Path, name: str) -> None:
    plans = Plans.of(FORGERIES[name], tmp_path)
    forged = SOURCE.replace(WRONG, FORGERIES[name].body)
    for seed in SEEDS:
        for seconds in SECONDS:
            changes = plans.values(plans.drawn(seed, seconds))
            assert any(plans.passes(each, forged) for each in changes), (seed, seconds, changes)
            assert not any(plans.passes(each, plans.forgery.fixed) for each in changes), (seed, seconds)


def test_values_in_a_loop_hold_in_many_runs(tmp_path: Path) -> None:
    forgery = FORGERIES["a number equal to the arguments, in a loop"]
    plans, forged = Plans.of(forgery, tmp_path), SOURCE.replace(WRONG, forgery.body)
    for seed in range(200):
        for seconds in SECONDS:
            assert any(plans.passes(each, forged) for each in plans.values(plans.drawn(seed, seconds))), seed
