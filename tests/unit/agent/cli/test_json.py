"""Each command of `swerl` prints its result as JSON, or says here why not."""

from __future__ import annotations

import click
import pytest
from swerl_agent.cli import root

from .command_tree import commands

WITHOUT_JSON = {
    "logs": "prints text of processes; its lines are JSON where the job's logFormat is",
    "eval job": "run by the Pods of a SweEval; its results are files of the evaluation",
    "sandbox shell": "interactive",
    "serve": "a server, whose answers are JSON",
    "view": "a server of web pages",
    "man": "writes manual pages",
    "completion": "prints a script for the shell",
}
SPELLINGS = {"-o", "--output", "--output-format"}


COMMANDS = dict(commands(root))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_prints_json_or_is_an_exception(name: str) -> None:
    forms = [option for option in COMMANDS[name].params if option.name == "output_format"]
    if name in WITHOUT_JSON:
        assert not forms, f"{name} is no exception any more"
        return
    (form,) = forms
    assert SPELLINGS & {*form.opts}
    assert isinstance(form.type, click.Choice) and "json" in form.type.choices


def test_exceptions_are_commands() -> None:
    assert WITHOUT_JSON.keys() <= COMMANDS.keys()
