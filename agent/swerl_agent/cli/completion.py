"""`swerl completion`: the script with which a shell completes commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .command import Options, runs

VARIABLE = "_SWERL_COMPLETE"  # with it set, `swerl` answers the script


@click.command(
    "completion",
    help='Print the completion script of a shell, for `eval "$(swerl completion bash)"`.',
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@runs
async def command(options: Options) -> int:
    """Print it; 0."""
    from . import root

    found = get_completion_class(options.shell)
    assert found is not None
    print(found(root, {}, "swerl", VARIABLE).source())
    return 0
