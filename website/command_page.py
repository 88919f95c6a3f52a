"""The page of all `swerl` commands, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

import click
from swerl_agent.cli import root

from .tables import cell, table

INTRODUCTION = """# swerl commands

Every command with its options, as `--help` shows them. [What all commands share](../cli.md): JSON, exit codes."""


def command_page() -> str:
    """A section for each command."""
    return "\n\n".join([INTRODUCTION, *_sections(root, "swerl"), ""])


def _sections(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    if not isinstance(command, click.Group):
        yield from _section(command, context, name)
        return
    for member in command.list_commands(context):
        found = command.get_command(context, member)
        if found and not found.hidden:
            yield from _sections(found, f"{name} {member}")


def _section(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    yield f"## {name}"
    yield cell(command.help or "")
    yield f"```text\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```"
    options = [parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option)]
    records = [option.get_help_record(context) for option in options if "--help" not in option.opts]
    rows = [(f"`{record[0]}`".replace("|", "\\|"), cell(record[1])) for record in records if record]
    yield table(("option", "meaning"), rows)
