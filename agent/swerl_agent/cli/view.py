"""`swerl view`: the episodes, curves and comparisons of a folder in the browser."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from swerl_api.addresses import LOOPBACK

from swerl_agent.signals import stop_event

from .command import Options, runs
from .episode_folder import require_folder
from .log_options import announce, configure_log, log_option
from .options import cluster_options, open_client
from .values import PATH, PORT

if TYPE_CHECKING:
    from swerl_agent.console import Authenticator, EpisodeIndex

DEFAULT_PORT = 8765


@click.command("view", help="Show jobs, evaluations and trajectories in the browser.")
@click.argument("folder", type=PATH)
@click.option("--host", default="127.0.0.1", help="address to serve at (default 127.0.0.1)")
@click.option("--port", type=PORT, default=DEFAULT_PORT, help=f"port; 0: a free one (default {DEFAULT_PORT})")
@click.option("--allow-host", multiple=True, metavar="NAME", help="another name that browsers reach it by")
@click.option("--tokenizer", type=PATH, metavar="FOLDER", help="tokenizer folder, to show tokens as text")
@click.option(
    "--show-gold", type=PATH, metavar="TASKS", help="tasks (repository, .jsonl or .parquet): show fixes and tests"
)
@click.option(
    "--show-gradings",
    is_flag=True,
    help="show tests and logs of gradings, as --show-gold and --auth kubernetes|header do to those who may see them",
)
@click.option(
    "--auth",
    type=click.Choice(["token", "kubernetes", "header"]),
    default="token",
    help="who may open it: all users with the printed token; users of the cluster with their token; users that a proxy"
    " names in --user-header (default token)",
)
@click.option("--user-header", default="X-Forwarded-User", help="with --auth header (default X-Forwarded-User)")
@click.option("--groups-header", default="X-Forwarded-Groups", help="the same for groups (default X-Forwarded-Groups)")
@cluster_options
@log_option
@click.option("--index", type=PATH, metavar="FILE", help="file of the index (default: in the folder)")
@runs
async def command(options: Options) -> int:
    """Serve until a signal; 0."""
    from swerl_agent.console import (  # needs packages that other commands do not
        ConsoleAccess,
        GroundTruthSource,
        Handlers,
        Pages,
        SharedToken,
        console_application,
        serve_console,
    )

    configure_log(options)
    root: Path = options.folder
    require_folder(root)
    gold = GroundTruthSource(options.show_gold) if options.show_gold else None
    index = _open_index(root, options.index)
    gradings = options.show_gradings or gold is not None or options.auth != "token"
    pages = Pages(root.resolve().name)
    handlers = Handlers(index, pages, ground_truth=gold, gradings=gradings, decode=_decoder(options.tokenizer))

    async with _authenticator(options) as authenticator:
        token = authenticator.token if isinstance(authenticator, SharedToken) else ""

        def listening(url: str) -> None:
            announce(options, f"serving {root} at {url}{f'?token={token}' if token else ''}")

        access = ConsoleAccess(options.host, authenticator, frozenset(name.lower() for name in options.allow_host))
        application = console_application(handlers, access)
        await serve_console(application, index, options.host, options.port, stop=stop_event(), on_listening=listening)
    return 0


@asynccontextmanager
async def _authenticator(options: Options) -> AsyncIterator[Authenticator]:
    """Who may open the pages; reviews of the cluster need its API server."""
    from swerl_agent.console import KubernetesToken, ProxyHeader, Reviews, SharedToken

    if options.auth == "token":
        yield SharedToken("" if options.host in LOOPBACK else secrets.token_urlsafe(24))
        return
    async with open_client(options) as client:
        reviews = Reviews(client, options.namespace or client.namespace)
        header = {"user": options.user_header, "groups": options.groups_header}
        yield KubernetesToken(reviews) if options.auth == "kubernetes" else ProxyHeader(reviews, **header)


def _open_index(root: Path, named: Path | None) -> EpisodeIndex:
    import sqlite3

    from swerl_agent.console import EpisodeIndex, index_path, is_foreign

    home = Path(os.environ.get("SWERL_HOME") or Path.home() / ".cache/swerl")
    path = named or index_path(root, home / "console")
    try:
        if named and is_foreign(named):
            raise click.UsageError(f"{named} is not an index of the console; name another --index")
        return EpisodeIndex(root, path)
    except (OSError, sqlite3.Error) as error:
        raise click.UsageError(f"{path}: the index cannot be written: {error}; name another --index") from error


def _decoder(folder: Path | None) -> Callable[[int], str] | None:
    """The text of a token; None without a tokenizer. Raises TokenizerError."""
    if folder is None:
        return None
    from swerl_agent.episode import HFTokenizer  # needs packages that the pages do not

    tokenizer = HFTokenizer(folder)
    return lambda token: tokenizer.decode([token]) if 0 <= token < tokenizer.vocab_size else ""
