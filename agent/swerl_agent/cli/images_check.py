"""`swerl images check`: which images of a task set their registries do not have, before anything runs."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import click
from swerl_api.images import rewrite

from swerl_agent.registry import (
    Availability,
    RegistryClient,
    RegistryCredentials,
    RegistryLimits,
    check_images,
    read_credentials,
)
from swerl_agent.tasks import TaskError
from swerl_agent.tasks.images import image_name
from swerl_agent.tasks.selection import parse_slice
from swerl_agent.tasks.sources import RowSource

from .command import Options, runs, together
from .output import is_json, output_option, print_result
from .task_options import rewrite_option, source_option
from .values import NATURAL, PATH, POSITIVE

LIST = ".txt"  # a file of image references, as `tasks images` and `tasks export` write them
PROGRESS_EVERY = 50


registry_options = together(  # how registries are reached
    click.option("--plain-http", multiple=True, metavar="HOST[:PORT]", help="a registry without TLS; repeatable"),
    click.option(
        "--docker-config",
        type=PATH,
        metavar="FILE",
        help="logins; default: config.json in $DOCKER_CONFIG or ~/.docker",
    ),
)


@click.command(
    "check",
    help="Print every image that its registry lacks, one a line, without pulling.\n\n"
    f"SOURCE: task set (file, folder, repository, short name), or list of images ({LIST}).",
)
@click.argument("source", nargs=-1, required=True)
@click.option("--slice", metavar="A:B", help="python slice of the images, in the order of their rows")
@source_option
@rewrite_option
@click.option("--concurrency", type=POSITIVE, default=8, help="images checked at the same time (default 8)")
@click.option("--rate", type=NATURAL, default=90, help="requests per minute to a host; 0: no limit (default 90)")
@click.option("--retries", type=NATURAL, default=5, help="retries (default 5)")
@registry_options
@output_option
@runs
async def check_registries(options: Options) -> int:
    """0 when all images are there, 1 when some are not, 3 when a registry did not say."""
    images = _images(options)
    limits = RegistryLimits(options.rate, options.retries, frozenset(options.plain_http))
    credentials = registry_credentials(options)
    known: Counter[str] = Counter()
    lacking: list[dict[str, str]] = []

    def report(found: Availability) -> None:
        known[found.state] += 1
        if found.state != "present":
            lacking.append({"image": found.image, "state": found.state, "detail": found.detail})
            if not is_json(options):
                print(found.image, flush=True)
            print(f"swerl: {found.image}: {found.detail}", file=sys.stderr, flush=True)
        if known.total() % PROGRESS_EVERY == 0 and known.total() < len(images):
            print(f"swerl: {known.total():,} of {len(images):,} images checked", file=sys.stderr, flush=True)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        client = RegistryClient(http, credentials, limits)
        await check_images(client, images, concurrency=options.concurrency, report=report)
    absent, undecided = known["missing"] + known["denied"], known["undecided"]
    if is_json(options):
        print_result(options, {"checked": len(images), "present": known["present"], "images": lacking})
    summary = f"{known['present']:,} of {len(images):,} images are there, {absent:,} are not"
    print(f"swerl: {summary}{f', {undecided:,} undecided' if undecided else ''}", file=sys.stderr)
    return 1 if absent else 3 if undecided else 0


def _images(options: Options) -> list[str]:
    """The images of all sources, each once; raises TaskError."""
    named = (image for text in options.source for image in _named(text, options.data_source))
    images = list(dict.fromkeys(rewrite(image, options.registry_rewrite) for image in named))
    chosen = images[parse_slice(options.slice)] if options.slice else images
    if not chosen:
        raise TaskError(f"no image is left of {len(images)} in {', '.join(options.source)}")
    return chosen


def _named(text: str, data_source: str) -> Iterator[str]:
    """The images of one source, as its rows or its lines name them; raises TaskError."""
    if text.endswith(LIST):
        yield from _listed(Path(text))
        return
    source = RowSource(text, data_source=data_source)
    for unread in source.unread_rows():
        row = unread.row(**source.defaults)
        try:
            yield image_name(row.columns, row.data_source)
        except KeyError as error:
            raise TaskError(f"field {error.args[0]} is missing", unread.where) from error
        except ValueError as error:
            raise TaskError(str(error), unread.where) from error


def _listed(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    return [line for line in lines if line and not line.startswith("#")]


def registry_credentials(options: Options) -> dict[str, RegistryCredentials]:
    """Logins by registry; raises CredentialError."""
    return read_credentials(path) if (path := _docker_config(options)) else {}


def _docker_config(options: Options) -> Path | None:
    if options.docker_config:
        return Path(options.docker_config)
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    return path if (path := folder / "config.json").is_file() else None
