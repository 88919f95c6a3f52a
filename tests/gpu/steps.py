"""The checks of a GPU machine that is lent for 15 minutes, in order, each with a time limit.

    python3 -m tests.gpu.steps FOLDER [--seconds 840] [--from STEP] [--carried FOLDER]

Guarantees: FOLDER/figures.jsonl has a line for each figure as soon as it is measured and for the end of each step; a
step past its limit is ended with all its processes, and the next one runs; no step begins after `--seconds`. It needs
an interpreter with the trainer's packages. `--carried`: what carry.sh wrote, whose env.sh is sourced already; its
kernels are compiled first.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.record import FILE, STEP, append

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 840  # of 15 minutes; the rest is for the machine's start and transfers
FIGURES = "figures.jsonl"
END_SECONDS = 20  # a process that the driver holds may not end
SUBREAPER = 36  # of prctl: orphans below this process become its children
# Head size, hidden size and key/value heads of the models: tests.gpu.shapes.
KERNEL_SHAPES = ["16", "64", "2", "128", "1024", "8", "128", "2560", "8"]


@dataclass(frozen=True)
class Step:
    """A command with its time limit."""

    name: str
    limit: float  # seconds
    command: Sequence[str]


def _test(name: str) -> list[str]:
    """Command that runs tests of this folder."""
    return [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/gpu/{name}"]


def _bench(part: str) -> list[str]:
    """Command that runs a part of the benchmark."""
    return [sys.executable, "-m", "tests.gpu.bench", part]


STEPS = (
    Step("machine", 30, [sys.executable, "-m", "tests.gpu.machine"]),
    Step("engine", 130, _test("test_engine.py::test_engine_samples_from_the_model[0.6b]")),
    Step("shared", 130, _test("test_shared_gpu.py")),
    Step("grpo", 150, _test("test_grpo.py")),
    Step("mfu", 200, _bench("mfu")),
    Step("decode", 140, _bench("rollout")),
)


def kernels(carried: Path) -> Step:
    """Compiles SGLang's kernels at once, which each engine would otherwise do one by one."""
    return Step("kernels", 60, [sys.executable, str(carried / "jit.py"), *KERNEL_SHAPES])


def run_steps(steps: Sequence[Step], folder: Path, seconds: float) -> int:
    """Run `steps` in order; how many did not pass. Ends every process below this one after each."""
    folder.mkdir(parents=True, exist_ok=True)
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    end = time.monotonic() + seconds
    return sum(not _passes(step, folder, end) for step in steps)


def _passes(step: Step, folder: Path, end: float) -> bool:
    began = time.monotonic()
    limit = min(step.limit, end - began)
    outcome = _outcome(step, folder, limit) if limit > 0 else "no time left"
    taken = round(time.monotonic() - began, 1)
    append(folder / FIGURES, {"step": step.name, "outcome": outcome, "seconds": taken})
    print(f"{step.name} {outcome} {taken:.0f} s", flush=True)
    return outcome == "passed"


def _outcome(step: Step, folder: Path, limit: float) -> str:
    environ = os.environ | {FILE: str((folder / FIGURES).resolve()), STEP: step.name, "QUICK": "1"}
    with (folder / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(step.command, cwd=ROOT, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"ended after {limit:.0f} s"
        finally:
            _end_descendants()
    return "passed" if status == 0 else f"failed with exit status {status}"


def _end_descendants() -> None:
    """Engines run in sessions of their own: a signal to the step's process group would miss them."""
    last = time.monotonic() + END_SECONDS
    while (pids := _descendants()) and time.monotonic() < last:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
        _reap(pids)


def _reap(pids: Sequence[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue


def _descendants() -> list[int]:
    """Living processes below this one."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(children.get(os.getpid(), []))
    for pid in found:
        found += children.get(pid, [])
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.steps", description=__doc__)
    parser.add_argument("folder", type=Path, help="for figures.jsonl and a log of each step")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of all steps (%(default)s)")
    parser.add_argument("--from", dest="first", default=STEPS[0].name, choices=[step.name for step in STEPS])
    parser.add_argument("--carried", type=Path, help="folder that carry.sh wrote")
    options = parser.parse_args(arguments)
    names = [step.name for step in STEPS]
    before = [kernels(options.carried)] if options.carried else []
    return 1 if run_steps([*before, *STEPS[names.index(options.first) :]], options.folder, options.seconds) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
