"""`python -m tests.summary FOLDER`: the suites recorded in FOLDER, then the line that `make test` ends with.

Exit status 1 when more than MOST_RERUNS tests had to be rerun: so many are a defect, not a busy machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.record import RunRecord

MOST_RERUNS = 5
SLOWEST = 5


def suite_line(name: str, record: RunRecord) -> str:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(record.outcomes.items()))
    rerun = f", {len(record.reruns)} rerun" if record.reruns else ""
    cpu = sum(record.cpu_seconds.values())
    return f"{name:24} {outcomes}{rerun} in {record.wall_seconds:.0f} s, {cpu:.0f} s of a processor"


def closing_line(records: Mapping[str, RunRecord]) -> str:
    """`passed N, reruns M, slowest: TEST SECONDS s, ...` over all suites; `failed` after `passed` if a test failed."""
    passed, failed = (sum(record.outcomes.get(name, 0) for record in records.values()) for name in ("passed", "failed"))
    reruns = sum(len(record.reruns) for record in records.values())
    seconds = {test: s for record in records.values() for test, s in record.seconds.items()}
    slowest = sorted(seconds, key=lambda test: -seconds[test])[:SLOWEST]
    named = ", ".join(f"{test.removeprefix('tests/')} {seconds[test]:.0f} s" for test in slowest)
    failures = f", failed {failed}" if failed else ""
    return f"passed {passed}{failures}, reruns {reruns}, slowest: {named}"


def main(folder: Path) -> int:
    records = {file.stem: RunRecord.read(file) for file in sorted(folder.glob("*.json"))}
    if not records:
        print(f"tests.summary: no record in {folder}; run the suites with --record", file=sys.stderr)
        return 1
    for name, record in records.items():
        print(suite_line(name, record))
    reruns = [test for record in records.values() for test in record.reruns]
    if len(reruns) > MOST_RERUNS:
        print(f"{len(reruns)} reruns, at most {MOST_RERUNS} are accepted; make these tests reliable:")
        print("\n".join(f"  {test}" for test in sorted(reruns)))
    print(closing_line(records))
    return int(len(reruns) > MOST_RERUNS)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
