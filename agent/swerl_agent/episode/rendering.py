"""Rendering of the templates that users write.

Guarantees: a template that fails says why and in which of its lines; one that writes without end is stopped, ranges are
bounded (SandboxedEnvironment), and none reaches the internals of what it is given.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator
from functools import cache
from typing import Any, cast

import jinja2
from jinja2.sandbox import SandboxedEnvironment

MAX_LENGTH = 4_000_000  # characters of what is rendered
QUOTED = 160  # characters of a line that an error shows
FILE = "<template>"  # what jinja2 calls the file of a template that was read from a string

_ENVIRONMENT = SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)


class TooLong(Exception):
    """A template that writes more than it may."""


def render(template: str, /, **variables: Any) -> str:
    """What `template` makes of `variables`; raises whatever a template may raise, see `failure`."""
    parts, length = [], 0
    stream = cast("Generator[str]", _compiled(template).generate(**variables))
    for part in stream:
        parts.append(part)
        length += len(part)
        if length > MAX_LENGTH:
            stream.throw(TooLong(f"more than {MAX_LENGTH} characters of text"))  # at the line that writes them
    return "".join(parts)


def failure(error: BaseException, template: str) -> str:
    """What went wrong in `template`, and in which line."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = failed_line(error)
    if line is None:
        return text
    lines = template.splitlines()
    quoted = lines[line - 1].strip()[:QUOTED] if line <= len(lines) else ""
    return f"{text}, in line {line}: {quoted}".rstrip(": ")


def failed_line(error: BaseException) -> int | None:
    """The line (from 1) of the template that raised `error`, None when no template did."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == FILE]
    return lines[-1] if lines else None


@cache
def _compiled(template: str) -> jinja2.Template:
    return _ENVIRONMENT.from_string(template)
