"""`swerl man`: a manual page (roff, section 1) of each command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from swerl_agent import RELEASE

from .command import Options, keeps
from .values import PATH

EXIT_STATUS = (
    ("0", "success"),
    ("1", "a check failed, or a task is unresolved"),
    ("2", "wrong usage or input"),
    ("3", "the infrastructure failed"),
    ("130, 143", "ended by Ctrl-C, by SIGTERM"),
)


@click.command("man", help="Write a manual page of each command into a folder, for `man swerl-watch`.")
@click.argument("folder", type=PATH)
@keeps("pages so far are kept: run the same command again")
async def command(options: Options) -> int:
    """Write them; 0."""
    from . import root

    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    pages = dict(manual_pages(root, ("swerl",)))
    for name, text in pages.items():
        (folder / f"{name}.1").write_text(text)
    print(f"{len(pages)} pages in {folder}; `man {folder / 'swerl.1'}` shows the first")
    return 0


def manual_pages(command: click.Command, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Name and text of the pages of a command, which is called by `words`, and of its members."""
    context = click.Context(command, info_name=" ".join(words))
    members = {name: found for name, found in _members(command, context) if not found.hidden}
    yield "-".join(words), "\n".join(_page(command, context, words, members)) + "\n"
    for name, member in members.items():
        yield from manual_pages(member, (*words, name))


def _members(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if found := command.get_command(context, name):
                yield name, found


def _page(
    command: click.Command, context: click.Context, words: Sequence[str], members: dict[str, click.Command]
) -> Iterator[str]:
    name, text = "-".join(words), " ".join((command.help or "").split())
    yield f'.TH {_plain(name.upper())} 1 "" "swe-rl {RELEASE}" "swerl"'
    yield f".SH NAME\n{_plain(name)} \\- {_plain(text.rstrip('.'))}"
    yield f".SH SYNOPSIS\n.B {_plain(' '.join(words))}\n{_plain(' '.join(command.collect_usage_pieces(context)))}"
    yield f".SH DESCRIPTION\n{_plain(text)}"
    yield from _section("COMMANDS", ((member, found.get_short_help_str(200)) for member, found in members.items()))
    options = (parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option))
    yield from _section("OPTIONS", filter(None, (option.get_help_record(context) for option in options)))
    yield from _section("EXIT STATUS", EXIT_STATUS)
    related = [f"{name}-{member}" for member in members] or ["-".join(words[:-1])]
    yield f".SH SEE ALSO\n{_plain(', '.join(f'{page}(1)' for page in related if page))}"


def _section(title: str, rows: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> Iterator[str]:
    """A list of terms, each in bold with its meaning; nothing without rows."""
    found = [f".TP\n.B {_plain(term)}\n{_plain(meaning)}".rstrip() for term, meaning in rows]
    if found:
        yield "\n".join([f".SH {title}", *found])


def _plain(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
