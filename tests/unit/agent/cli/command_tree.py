"""The commands of `swerl`, as click has them."""

from __future__ import annotations

from collections.abc import Iterator

import click


def commands(command: click.Command, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its words after `swerl`."""
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None, name
        yield from commands(found, *words, name)
