"""`swerl view`: the episodes, curves and comparisons of a folder in the browser."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from swerl_api.addresses import LOOPBACK

from .signals import stop_event
from .values import natural

if TYPE_CHECKING:
    from swerl_agent.console import EpisodeIndex

PORT = 8765


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The command has no verbs."""
    parser.add_argument("folder", type=Path, help="folder of a job or an evaluation, or a folder that contains some")
    parser.add_argument("--host", default="127.0.0.1", help="address to serve at (default 127.0.0.1)")
    parser.add_argument("--port", type=natural, default=PORT, help=f"port; 0: a free one (default {PORT})")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another name that browsers reach it by"
    )
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="tokenizer folder, to show tokens as text")
    parser.add_argument(
        "--show-gold",
        type=Path,
        metavar="TASKS",
        help="task repository or JSONL file: show its fixes and tests",
    )
    parser.add_argument("--index", type=Path, metavar="FILE", help="file of the index (default: in the folder)")
    parser.set_defaults(run=view)


async def view(options: argparse.Namespace) -> int:
    """Serve until a signal; 0."""
    from swerl_agent.console import (  # needs packages that other commands do not
        ConsoleAccess,
        GroundTruthSource,
        Handlers,
        Pages,
        console_application,
        serve_console,
    )

    root: Path = options.folder
    if not root.is_dir():
        raise argparse.ArgumentTypeError(f"{root} is no folder; name the output folder of a job or an evaluation")
    token = "" if options.host in LOOPBACK else secrets.token_urlsafe(24)
    access = ConsoleAccess(options.host, token, frozenset(name.lower() for name in options.allow_host))
    gold = GroundTruthSource(options.show_gold) if options.show_gold else None
    index = _open_index(root, options.index)
    handlers = Handlers(index, Pages(root.resolve().name), gold, _decoder(options.tokenizer))

    def print_url(url: str) -> None:
        print(f"serving {root} at {url}{f'?token={token}' if token else ''}", flush=True)

    application = console_application(handlers, access)
    await serve_console(application, index, options.host, options.port, stop=stop_event(), on_listening=print_url)
    return 0


def _open_index(root: Path, named: Path | None) -> EpisodeIndex:
    import sqlite3

    from swerl_agent.console import EpisodeIndex, index_path

    home = Path(os.environ.get("SWERL_HOME") or Path.home() / ".cache/swerl")
    path = named or index_path(root, home / "console")
    try:
        return EpisodeIndex(root, path)
    except (OSError, sqlite3.Error) as error:
        raise argparse.ArgumentTypeError(
            f"{path}: the index cannot be written: {error}; name another --index"
        ) from error


def _decoder(folder: Path | None) -> Callable[[int], str] | None:
    """The text of a token; None without a tokenizer. Raises TokenizerError."""
    if folder is None:
        return None
    from swerl_agent.episode import HFTokenizer  # needs packages that the pages do not

    tokenizer = HFTokenizer(folder)
    return lambda token: tokenizer.decode([token]) if 0 <= token < tokenizer.vocab_size else ""
