"""What is typed to a session's bash, evaluated by a real one."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swerex.exceptions import NoExitCodeError
from swerex.runtime.abstract import BashAction
from swerl_agent.integrations.bash_text import (
    WaitResult,
    command_observation,
    input_lines,
    interactive_observation,
    without_escapes,
)

LIMIT = 4096  # bytes of a line in a terminal's input
PROMPT_FUNCTIONS = '__swerl_take() { printf "%s" "$2"; __swerl_text=; }; __swerl_prompt() { :; }\n'
arbitrary_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text(
    "a'\\!\n\té", max_size=20000
)


@settings(max_examples=60, deadline=None)
@given(arbitrary_text)
def test_command_is_one_word_in_short_lines(command: str) -> None:
    lines = input_lines(7, command)
    assert lines.isascii() and all(len(line) < LIMIT for line in lines.splitlines())
    done = subprocess.run(
        ["bash", "--norc"], input=(PROMPT_FUNCTIONS + lines).encode(), capture_output=True, check=True
    )
    assert done.stdout == command.encode()


def test_invalid_utf8_is_sent_and_shown() -> None:
    done = subprocess.run(
        ["bash"], input=(PROMPT_FUNCTIONS + input_lines(1, "\udcff")).encode(), capture_output=True, check=True
    )
    assert without_escapes(done.stdout) == "\\xff"


def test_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        input_lines(1, "a\0b")


def test_terminal_escapes_are_removed() -> None:
    assert without_escapes(b"\x1b[1;31mred\x1b[0m\x1b[?2004l\r\nnext\rover\r\n") == "red\nnext\rover\n"


def test_echo_of_an_interactive_command_is_removed() -> None:
    action = BashAction(command="print(1)\n", is_interactive_command=True)
    assert interactive_observation(action, WaitResult("print(1)\n1\n", ">>> ")).output == "1\n"
    assert interactive_observation(action, WaitResult("1\n", ">>> ")).output == "1\n"


def test_missing_exit_code_raises_only_with_check() -> None:
    wait_result = WaitResult("(gdb) ", "gdb")
    assert command_observation(BashAction(command="gdb", check="silent"), wait_result).exit_code is None
    with pytest.raises(NoExitCodeError):
        command_observation(BashAction(command="gdb"), wait_result)
