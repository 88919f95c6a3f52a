"""The eval script as grading runs it, and its output as grading reads it.

Guarantees: where the script runs pytest or unittest, the run loads its witness (`witness/`). The exit status of the
test command is recorded after the end marker. The first start marker and the last end marker count, so output of a
patch cannot close the region early. A test that is reported both passed and failed has failed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_OUTCOMES = ("PASSED", "FAILED")
MAX_LINES = 500_000  # different ones of a log
_VARIABLE = "SWEBENCH_TEST_EXIT_CODE"

# What makes test runs load the witness; it is put right before the tests, after whatever the script sets itself. First
# it announces to process 1 that the tests begin, and waits until that has killed what installation steps left running.
_LOAD_WITNESS = (
    '[ -z "${SWERL_WITNESS_FOLDER:-}" ] ||'
    ' { printf . > "$SWERL_WITNESS_FOLDER/gate"; read -r _ < "$SWERL_WITNESS_FOLDER/opened"; };'
    ' [ -z "${SWERL_WITNESS_CODE:-}" ] || export SWERL_WITNESS="$SWERL_WITNESS_FOLDER"'
    ' SWERL_WITNESS_PYTHONPATH="${PYTHONPATH:-}" SWERL_WITNESS_PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-}"'
    ' PYTHONPATH="%s$SWERL_WITNESS_CODE${PYTHONPATH:+:$PYTHONPATH}"'
    ' PYTEST_ADDOPTS="-p swerl_witness ${PYTEST_ADDOPTS:-}"'
    " TOX_TESTENV_PASSENV='PYTHONPATH PYTEST_ADDOPTS SWERL_*'"
    " TOX_OVERRIDE='testenv.pass_env+=PYTHONPATH,PYTEST_ADDOPTS,SWERL_*'"
)
_LINE = r"(?:^|;|&&|\|\|)\s*(?:do\s+)?(?:\w+=\S*\s+)*"  # where a command begins, and its variables
_PYTHON = r"\S*python[\d.]*\s+(?:(?!-m\s)\S+\s+)*?"  # with its options
_PYTEST = re.compile(rf"{_LINE}(?:{_PYTHON}-m\s+)?(?:\S*/)?(?:pytest|py\.test|tox)(?=\s|$)", re.MULTILINE)
_UNITTEST = re.compile(
    rf"{_LINE}(?:{_PYTHON}-m\s+unittest|(?:{_PYTHON})?(?:\S*/)?tests/runtests\.py)(?=\s|$)", re.MULTILINE
)
# A loop over words, without another loop in it.
_LOOP = re.compile(
    r"(?P<before>^|[;\n]|\bdo\b)[ \t]*for\s+\w+\s+in\s+(?P<words>[^;\n]*)[;\n]\s*do\b"
    r"(?P<body>(?:(?!\bdo\b).)*?)[;\n]\s*done\b",
    re.DOTALL,
)
_EXPANDED = re.compile(r"[$`*?{}\[\]~<>()&|#]")  # in words that the shell makes others of
_MAX_WORDS = 100
# What may start any number of test runs.
_STARTS_RUNS = re.compile(
    rf"{_LINE}(?:for|while|until|select|g?make|nox|inv|invoke|parallel)(?=\s)|\bxargs(?=\s)|\s-exec\s", re.MULTILINE
)

Parser = Callable[[str], Mapping[str, str]]


def pytest_runs(script: str) -> int:
    """How often the script's test commands run pytest (or tox, which runs it), as far as it shows."""
    return len(_PYTEST.findall(_tests(script)))


def unittest_runs(script: str) -> int:
    """How often the script's test commands run unittest or Django's `tests/runtests.py`, as far as it shows."""
    return len(_UNITTEST.findall(_tests(script)))


def shows_all_runs(script: str) -> bool:
    """Whether nothing in the script may start more test runs than it shows, as `make` or a loop over a pattern may."""
    return not _STARTS_RUNS.search(_tests(script))


def _tests(script: str) -> str:
    """The part with the test commands; a loop over plain words as the commands that it runs."""
    text, unrolled = "", script[max(script.rfind(START), 0) :]
    while text != unrolled:
        text, unrolled = unrolled, _LOOP.sub(_unrolled, unrolled)
    return text


def _unrolled(loop: re.Match[str]) -> str:
    try:
        words = shlex.split(loop["words"])
    except ValueError:  # an open quote
        return loop[0]
    if _EXPANDED.search(loop["words"]) or not 0 < len(words) <= _MAX_WORDS:
        return loop[0]
    return "\n".join([loop["before"], *[loop["body"]] * len(words), ""])


def _load_witness(script: str) -> str:
    return _LOAD_WITNESS % ("$SWERL_WITNESS_CODE/runners:" if unittest_runs(script) else "")


def instrumented(script: str) -> str:
    """`script` with the test command's exit status printed after the end marker.

    A script without markers (older renderers) is bracketed as a whole; its own last status is then the recorded one.
    """
    lines = script.split("\n")
    ends = [number for number, line in enumerate(lines) if END in line]
    if not ends or START not in script:
        body = script if script.endswith("\n") else script + "\n"
        whole = f"(\n{_load_witness(script)}\n{body})\n{_VARIABLE}=$?"
        return f"echo '{START}'\n{whole}\necho '{END}'\necho \"{EXIT_CODE}: ${_VARIABLE}\"\n"
    at = ends[-1]
    lines[at : at + 1] = [f"{_VARIABLE}=$?", lines[at], f'echo "{EXIT_CODE}: ${_VARIABLE}"']
    starts = [number for number, line in enumerate(lines[:at]) if START in line]
    lines.insert(starts[-1] if starts else 0, _load_witness(script))
    return "\n".join(lines)


def normalised(output: str, parse: Parser) -> str | None:
    """`output` as swebench grades it: one start marker, the test output, one end marker, the exit code.

    None when a marker is missing: the tests did not run to their end. Lines that give a test that also failed as passed
    are left out.
    """
    start, end = output.find(START), output.rfind(END)
    if start < 0 or end < start:
        return None
    region = output[start + len(START) : end].replace(START, "").replace(END, "")
    code = output[end:].rpartition(f"\n{EXIT_CODE}: ")[2].split("\n")[0] if EXIT_CODE in output[end:] else ""
    kept = without_contradictions(region, parse)
    return f"{START}\n{kept}\n{END}\n" + (f"{EXIT_CODE}: {code}\n" if code.strip().lstrip("-").isdigit() else "")


def exit_code(output: str) -> int | None:
    """The test command's exit code, None where it is not there."""
    code = output[max(output.rfind(END), 0) :].rpartition(f"\n{EXIT_CODE}: ")[2].split("\n")[0].strip()
    return int(code) if EXIT_CODE in output and code.isdecimal() else None


def without_contradictions(region: str, parse: Parser) -> str:
    """`region` without the lines that report as passed a test which another line reports as failed."""
    lines = region.split("\n")
    reported = _reported(lines, parse)
    ambiguous = _contradicted(reported)
    if not ambiguous:
        return region
    dropped = [any(tests[test] == "PASSED" for test in ambiguous & tests.keys()) for tests in reported]
    return "\n".join(line for line, drop in zip(lines, dropped, strict=True) if not drop)


def contradicted(output: str, parse: Parser) -> set[str]:
    """Tests that lines of `output` report both as passed and as failed."""
    return _contradicted(_reported(output.split("\n"), parse))


def _reported(lines: Sequence[str], parse: Parser) -> list[Mapping[str, str]]:
    """What each line reports by itself; raises ValueError for more different lines than a test run prints."""
    known: dict[str, Mapping[str, str]] = {}
    for line in lines:
        if line not in known:
            known[line] = parse(line) if line.strip() else {}
        if len(known) > MAX_LINES:
            raise ValueError(f"it has more than {MAX_LINES} different lines")
    return [known[line] for line in lines]


def _contradicted(reported: Sequence[Mapping[str, str]]) -> set[str]:
    of = {status: {test for tests in reported for test in tests if tests[test] == status} for status in _OUTCOMES}
    return of["PASSED"] & of["FAILED"]
