"""The steps on a lent GPU machine keep their limits and leave their figures, whatever happens to them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.shapes import QWEN3_0_6B, QWEN3_4B, TINY
from tests.gpu.steps import KERNEL_SHAPES, SECONDS, STEPS, kernels

LENT = 15 * 60
RECORDS = "from tests.gpu.record import record; record('figure', {});"
# A process in a session of its own, as an engine has, which outlives its parent.
STARTS_ENGINE = "import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True); print(p.pid);"


def run_steps(folder: Path, programs: dict[str, str], *, limit: float = 30, seconds: float = 60) -> dict[str, Any]:
    """Figures and outcomes of steps that run Python `programs`, and the seconds that all took."""
    steps = ", ".join(
        f"Step({name!r}, {limit}, [sys.executable, '-c', {program!r}])" for name, program in programs.items()
    )
    program = (
        "import sys; from pathlib import Path; from tests.gpu.steps import Step, run_steps;"
        f"print('failures', run_steps([{steps}], Path({str(folder)!r}), {seconds}))"
    )
    began = time.monotonic()
    output = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120)
    lines = [json.loads(line) for line in (folder / "figures.jsonl").read_text().splitlines()]
    return {
        "figures": [(line["step"], line["value"]) for line in lines if "figure" in line],
        "outcomes": {line["step"]: line["outcome"] for line in lines if "outcome" in line},
        "failures": int(output.split()[-1]),
        "seconds": time.monotonic() - began,
    }


def ends(pid: int) -> bool:
    """Whether the process is gone, or soon is."""
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_order_is_that_of_the_questions_and_all_fits_the_loan() -> None:
    assert [step.name for step in STEPS] == ["machine", "engine", "shared", "grpo", "mfu", "decode"]
    every = [kernels(Path("carried")), *STEPS]
    assert sum(step.limit for step in every) <= SECONDS < LENT
    assert len(every) + 1 <= 8, "a log of each and the figures: no more files come back from such a machine"


def test_kernels_are_those_of_the_shapes() -> None:
    numbers = [int(number) for number in KERNEL_SHAPES]
    shapes = [tuple(numbers[i : i + 3]) for i in range(0, len(numbers), 3)]
    assert shapes == [(shape.head_size, shape.hidden, shape.groups) for shape in (TINY, QWEN3_0_6B, QWEN3_4B)]


def test_commands_name_what_exists() -> None:
    root = Path(__file__).parents[3]
    files = [word.partition("::")[0] for step in STEPS for word in step.command if word.startswith("tests/")]
    assert len(files) == 3 and all((root / file).is_file() for file in files)


def test_failed_step_does_not_keep_the_next_from_running(tmp_path: Path) -> None:
    found = run_steps(tmp_path, {"first": RECORDS.format(1.5) + "raise SystemExit(3)", "second": RECORDS.format(2)})
    assert found["figures"] == [("first", 1.5), ("second", 2)]
    assert found["outcomes"] == {"first": "failed with exit status 3", "second": "passed"}
    assert found["failures"] == 1


def test_step_past_its_limit_ends_with_its_processes_and_keeps_its_figures(tmp_path: Path) -> None:
    hangs = RECORDS.format(1) + STARTS_ENGINE + "import sys, time; sys.stdout.flush(); time.sleep(600)"
    found = run_steps(tmp_path, {"hangs": hangs, "next": RECORDS.format(2)}, limit=5)
    assert found["outcomes"] == {"hangs": "ended after 5 s", "next": "passed"}
    assert found["figures"] == [("hangs", 1), ("next", 2)]
    assert ends(int((tmp_path / "hangs.log").read_text()))


def test_engine_that_a_step_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    found = run_steps(tmp_path, {"leaves": STARTS_ENGINE})
    assert found["outcomes"] == {"leaves": "passed"}
    assert found["seconds"] < 60
    assert ends(int((tmp_path / "leaves.log").read_text()))


def test_no_step_begins_when_the_time_is_over(tmp_path: Path) -> None:
    found = run_steps(tmp_path, {"long": "import time; time.sleep(600)", "late": "pass"}, seconds=3)
    assert found["outcomes"] == {"long": "ended after 3 s", "late": "no time left"}
    assert found["failures"] == 2 and found["seconds"] < 30


def test_figures_outside_the_steps_go_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", RECORDS.format(1)], check=True)
    assert not list(tmp_path.iterdir())
