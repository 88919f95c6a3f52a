"""The eval script as grading runs it, and its output as grading reads it.

Guarantees: the exit status of the test command is recorded after the end marker; of several markers in the output the
first start and the last end count, so that output printed by a patch cannot close the region early; a test that is
reported both passed and failed has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_VARIABLE = "SWEBENCH_TEST_EXIT_CODE"

Parser = Callable[[str], Mapping[str, str]]


def instrumented(script: str) -> str:
    """`script` with the test command's exit status printed after the end marker.

    A script without markers (older renderers) is bracketed as a whole; its own last status is then the recorded one.
    """
    lines = script.split("\n")
    ends = [number for number, line in enumerate(lines) if END in line]
    if not ends or START not in script:
        body = script if script.endswith("\n") else script + "\n"
        return f"echo '{START}'\n(\n{body})\n{_VARIABLE}=$?\necho '{END}'\necho \"{EXIT_CODE}: ${_VARIABLE}\"\n"
    at = ends[-1]
    lines[at : at + 1] = [f"{_VARIABLE}=$?", lines[at], f'echo "{EXIT_CODE}: ${_VARIABLE}"']
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


def without_contradictions(region: str, parse: Parser) -> str:
    """`region` without the lines that report as passed a test which another line reports as failed."""
    lines = region.split("\n")
    reported = [parse(line) if line.strip() else {} for line in lines]
    failed = {test for tests in reported for test, status in tests.items() if status == "FAILED"}
    contradicting = [any(tests[test] == "PASSED" for test in failed & tests.keys()) for tests in reported]
    if not any(contradicting):
        return region
    return "\n".join(line for line, drop in zip(lines, contradicting, strict=True) if not drop)
