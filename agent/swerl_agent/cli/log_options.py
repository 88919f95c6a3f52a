"""The log of commands that serve: lines for a terminal, or a JSON object per line for a collector of logs."""

from __future__ import annotations

import logging
import sys
from typing import get_args

import click
from swerl_api.base import LogFormat
from swerl_kube.logs import LogSettings

from .command import Options

log = logging.getLogger(__name__)

log_option = click.option(
    "--log-format",
    type=click.Choice(get_args(LogFormat)),
    default="text",
    help="lines of text, or a JSON object per line on standard error (default text)",
)


def configure_log(options: Options, **ids: str) -> None:
    """With --log-format json, send all lines, with `ids`, to standard error as JSON."""
    if options.log_format == "json":
        LogSettings("json", ids).configure(sys.stderr)


def announce(options: Options, text: str) -> None:
    """Say where it serves: on standard output, or as a line of the JSON log."""
    if options.log_format == "json":
        log.info(text)
    else:
        print(text, flush=True)
