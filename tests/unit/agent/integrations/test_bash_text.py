"""What is typed to a session's bash, evaluated by a real one."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swerex.exceptions import NoExitCodeError
from swerex.runtime.abstract import BashAction
from swerl_agent.integrations.bash_text import Found, answered, observed, plain, typed

LIMIT = 4096  # bytes of a line in a terminal's input
TELL = '__swerl_take() { printf "%s" "$2"; __swerl_text=; }; __swerl_prompt() { :; }\n'
odd = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")) | st.text("a'\\!\n\té", max_size=20000)


@settings(max_examples=60, deadline=None)
@given(odd)
def test_a_command_is_one_word_in_lines_a_terminal_takes(command: str) -> None:
    lines = typed(7, command)
    assert lines.isascii() and all(len(line) < LIMIT for line in lines.splitlines())
    done = subprocess.run(["bash", "--norc"], input=(TELL + lines).encode(), capture_output=True, check=True)
    assert done.stdout == command.encode()


def test_bytes_that_are_no_text_are_typed_and_shown() -> None:
    done = subprocess.run(["bash"], input=(TELL + typed(1, "\udcff")).encode(), capture_output=True, check=True)
    assert plain(done.stdout) == "\\xff"


def test_no_command_contains_a_nul_byte() -> None:
    with pytest.raises(ValueError, match="NUL"):
        typed(1, "a\0b")


def test_terminal_escapes_are_left_out() -> None:
    assert plain(b"\x1b[1;31mred\x1b[0m\x1b[?2004l\r\nnext\rover\r\n") == "red\nnext\rover\n"


def test_the_echo_of_an_interactive_command_is_left_out() -> None:
    action = BashAction(command="print(1)\n", is_interactive_command=True)
    assert answered(action, Found("print(1)\n1\n", ">>> ")).output == "1\n"
    assert answered(action, Found("1\n", ">>> ")).output == "1\n"


def test_a_command_without_exit_code_fails_only_where_it_is_asked_for() -> None:
    seen = Found("(gdb) ", "gdb")
    assert observed(BashAction(command="gdb", check="silent"), seen).exit_code is None
    with pytest.raises(NoExitCodeError):
        observed(BashAction(command="gdb"), seen)
