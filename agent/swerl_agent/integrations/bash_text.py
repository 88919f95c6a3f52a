"""Input lines for a session's bash and the meaning of its output, as pure functions.

Guarantees: a command is sent as printable ASCII, in lines shorter than a terminal's limit, and is one word to bash,
whatever it contains. Returned text has neither terminal escapes nor the terminal's carriage returns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from swerex.exceptions import BashIncorrectSyntaxError, NoExitCodeError, NonZeroExitCodeError
from swerex.runtime.abstract import BashAction, BashObservation

MAX_LINE = 3000  # characters of an input line; a terminal takes 4096
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\^_])")
RUN = 'eval "$__swerl_text"; { __swerl_code=$?; __swerl_prompt; } 2>/dev/null'
PROMPT = "PS1"  # `expect_string` of an observation that ended with the prompt
PRINTABLE = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\!")  # need no escape in $'...'


@dataclass(frozen=True)
class WaitResult:
    """The output up to the match that ended a wait."""

    before: str  # without_escapes text
    expected: str  # the pattern that matched, or PROMPT
    code: int | None = None  # exit code, if the prompt has one


def input_lines(number: int, command: str) -> str:
    """The input that makes bash run `command` as number `number`; raises ValueError for a NUL byte."""
    data = command.encode("utf-8", "surrogateescape")
    if 0 in data:
        raise ValueError("a command cannot contain a NUL byte")
    quoted = "".join(chr(byte) if byte in PRINTABLE else f"\\{byte:03o}" for byte in data)
    lines = "'\\\n$'".join(_pieces(quoted))
    return f"__swerl_take {number} $'{lines}'; {RUN}\n"


def without_escapes(data: bytes) -> str:
    """Output of a terminal as text, without escapes and carriage returns."""
    return ESCAPES.sub("", data.decode("utf-8", "backslashreplace")).replace("\r\n", "\n")


def exit_code(word: bytes) -> int | None:
    """The exit code in a prompt; None when a command has made it unreadable."""
    return int(word) if word.isdigit() else None


def command_observation(action: BashAction, result: WaitResult) -> BashObservation:
    """The observation of a command; raises NonZeroExitCodeError and NoExitCodeError as `check` says."""
    exit_code = None if action.check == "ignore" else result.code
    why = f"Command {action.command!r} failed with exit code {result.code}. Here is the output:\n{result.before!r}"
    if action.error_msg:
        why = f"{action.error_msg}: {why}"
    if action.check == "raise" and result.code is None:
        raise NoExitCodeError(f"no exit code, {result.expected!r} came first. {why}")
    if action.check == "raise" and exit_code != 0:
        raise NonZeroExitCodeError(why)
    return BashObservation(output=result.before, exit_code=exit_code, expect_string=result.expected)


def interactive_observation(action: BashAction, result: WaitResult) -> BashObservation:
    """The observation of an interactive program's output, without the echo of the command."""
    output = result.before
    if (rest := output.lstrip("\n").removeprefix(action.command.rstrip("\n") + "\n")) != output.lstrip("\n"):
        output = rest
    return BashObservation(output=output, exit_code=result.code or 0, expect_string=result.expected)


def incorrect_syntax(command: str, message: str) -> BashIncorrectSyntaxError:
    """The error of a command that bash cannot parse."""
    text = f"bash cannot parse {command!r}, so nothing was run:\n{message}"
    return BashIncorrectSyntaxError(text, extra_info={"bash_stdout": "", "bash_stderr": message})


def _pieces(quoted: str) -> list[str]:
    """The text in pieces of at most MAX_LINE characters; none ends inside an escape."""
    pieces, start = [], 0
    while len(quoted) - start > MAX_LINE:
        end = start + MAX_LINE
        if (escape := quoted.rfind("\\", end - 3, end)) >= 0:
            end = escape
        pieces.append(quoted[start:end])
        start = end
    return [*pieces, quoted[start:]]
