"""Rendering of the templates that users write.

Guarantees: a template that fails says why and in which of its lines; one that loops, repeats or writes without end is
stopped after as much work at every rendering, so that it holds up neither memory nor event loop for long; none reaches
the internals of what it is given.
"""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

MAX_STEPS = 250_000  # passes through loops and calls of one rendering
MAX_LENGTH = 4_000_000  # characters of what is rendered, and entries of any text or list on the way
MAX_BITS = 4_096  # of a number on the way
QUOTED = 160  # characters of a line that an error shows
FILE = "<template>"  # what jinja2 calls the file of a template that was read from a string


class TooMuch(Exception):
    """A template that does or writes more than it may."""


class _Meter:
    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooMuch(f"more than {MAX_STEPS} passes through loops and calls")


_METER: ContextVar[_Meter] = ContextVar("meter")


class _BoundedCode(CodeGenerator):
    """Loops that are counted, and texts joined by `~` that are measured."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        metered = nodes.EnvironmentAttribute("metered", lineno=node.lineno)
        node.iter = nodes.Call(metered, [node.iter], [], None, None, lineno=node.lineno)
        super().visit_For(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.bounded(")
        super().visit_Concat(node, frame)
        self.write(")")


class _Environment(SandboxedEnvironment):
    code_generator_class = _BoundedCode
    intercepted_binops = frozenset({"*", "**", "+"})

    def is_safe_callable(self, obj: Any) -> bool:
        _METER.get().step()  # asked before every call, so that macros that call each other end, too
        return super().is_safe_callable(obj)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            _check_product(left, right)
        if operator == "**" and isinstance(right, int) and abs(right) > MAX_BITS:
            raise TooMuch(f"a power of {right}")
        return self.bounded(super().call_binop(context, operator, left, right))

    def metered(self, values: Iterable[Any]) -> Iterator[Any]:
        """`values`, each of which counts."""
        meter = _METER.get()
        for value in values:
            meter.step()
            yield value

    def bounded(self, value: Any) -> Any:
        """`value`, which is no longer than it may be; raises TooMuch."""
        _check_length(len(value) if isinstance(value, str | list | tuple) else 0)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise TooMuch(f"a number of more than {MAX_BITS} bits")
        return value


_ENVIRONMENT = _Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False, autoescape=False)


def render(template: str, **variables: Any) -> str:
    """What `template` makes of `variables`; raises whatever a template may raise, see `failure`."""
    previous = _METER.set(_Meter())
    try:
        parts, length = [], 0
        stream = cast("Generator[str]", _compiled(template).generate(**variables))
        for part in stream:
            parts.append(part)
            length += len(part)
            if length > MAX_LENGTH:
                stream.throw(TooMuch(f"more than {MAX_LENGTH} characters of text"))  # at the line that writes them
        return "".join(parts)
    finally:
        _METER.reset(previous)


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


def _check_product(left: Any, right: Any) -> None:
    for text, times in ((left, right), (right, left)):
        if isinstance(text, str | list | tuple) and isinstance(times, int):
            _check_length(len(text) * times)


def _check_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise TooMuch(f"a text or list of more than {MAX_LENGTH} entries")
