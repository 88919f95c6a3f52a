"""`-o json`: the result of a command as one JSON document on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from .command import Decorator, Options

TEXT, JSON = "text", "json"


def _output_option(*names: str) -> Decorator:
    return click.option(*names, "output_format", type=click.Choice([TEXT, JSON]), default=TEXT, help="default: text")


output_option = _output_option("-o", "--output")
output_format_option = _output_option("-o", "--output-format")  # of commands whose --output is a folder
long_output_format_option = _output_option("--output-format")  # of commands that exist to write -o, a file or folder


def is_json(options: Options) -> bool:
    """Whether standard output is for the JSON document alone."""
    return bool(options.output_format == JSON)


def print_result(options: Options, document: Any, lines: Iterable[str] = ()) -> None:
    """Print the document with `-o json`, else the lines."""
    if is_json(options):
        print(json.dumps(document, indent=2, ensure_ascii=False), flush=True)
        return
    for line in lines:
        print(line, flush=True)


def print_line(document: Any) -> None:
    """Print one document of several, each on a line of its own."""
    print(json.dumps(document, ensure_ascii=False), flush=True)


def print_progress(options: Options, line: str) -> None:
    """Print a line while the command works: on standard error where standard output is for the document."""
    print(line, file=sys.stderr if is_json(options) else sys.stdout, flush=True)
