"""What `swerl` commands are made of: groups that import a command when it is named, and functions of parsed options.

Guarantee: neither `--help` nor completion of a group imports the modules of its members.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import click
from click.shell_completion import CompletionItem

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


class Options(SimpleNamespace):
    """Values of a command's options and arguments, by name: `--dry-run` is `dry_run`."""


@dataclass(frozen=True)
class Invocation:
    """A parsed command line: what runs, its options, and what is kept when a signal or the disk ends it."""

    work: Callable[[Options], Awaitable[int]]
    options: Options
    kept: str = ""


def runs(work: Callable[[Options], Awaitable[int]]) -> Callable[..., Invocation]:
    """The callback of a click command that runs `work`, which only reads and returns the exit code."""
    return _callback(work, "")


def keeps(what: str) -> Callable[[Callable[[Options], Awaitable[int]]], Callable[..., Invocation]]:
    """As `runs`, for a command that says `what` it keeps when a signal or a full disk ends it."""
    return functools.partial(_callback, kept=what)


def _callback(work: Callable[[Options], Awaitable[int]], kept: str) -> Callable[..., Invocation]:

    @functools.wraps(work)
    def callback(**parameters: Any) -> Invocation:
        if parameters.get("context"):
            from swerl_kube import KubeContext  # needs packages that `--help` does not

            parameters["kubeconfig"] = KubeContext(parameters["kubeconfig"], parameters["context"])
        return Invocation(work, Options(**parameters), kept)

    return callback


resumes = keeps("results so far are kept: run the same command again")


class Decorator(Protocol):
    """What `click.option` returns: adds options to a command."""

    def __call__(self, command: Decorated, /) -> Decorated: ...


def together(*decorators: Decorator) -> Decorator:
    """One decorator of several; `--help` shows their options in this order."""

    def decorate(command: Decorated, /) -> Decorated:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def require_one(options: Options, **names: str) -> None:
    """Raises UsageError unless exactly one of these options has a value; `names` maps each to its spelling."""
    given = [spelling for name, spelling in names.items() if getattr(options, name)]
    if len(given) != 1:
        what = f"{' and '.join(given)} exclude each other" if given else "no input"
        raise click.UsageError(f"{what}: give one of {', '.join(names.values())}")


class Group(click.Group):
    """A command with verbs. `members` maps each lazily imported one to `module:attribute` and its help."""

    def __init__(self, name: str, *, help: str, members: Mapping[str, tuple[str, str]] | None = None) -> None:
        super().__init__(name, help=help, context_settings=CONTEXT)
        self._members = dict(members or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of their declaration."""
        return [*self._members, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; imports its module."""
        if cmd_name not in self._members:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._members[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module, __package__), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click; a name that is no command is answered with those that resemble it."""
        close = get_close_matches(args[0], self.list_commands(ctx))
        if close and args[0] not in self.list_commands(ctx):
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(close)}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and helps."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._helps().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The members that begin so, and the group's options."""
        found = [CompletionItem(name, help=text) for name, text in self._helps().items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _helps(self) -> dict[str, str]:
        own = {name: command.get_short_help_str(120) for name, command in self.commands.items()}
        return {name: text for name, (_, text) in self._members.items()} | own
