"""Values of options: numbers in a range, parts, pairs, and what the API's models make of them."""

from __future__ import annotations

import argparse
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from swerl_api import RegistryRewrite

Model = TypeVar("Model", bound=BaseModel)


def checked(kind: type[Model], /, **fields: Any) -> Model:
    """The model of these fields; raises ArgumentTypeError naming the field that is invalid."""
    try:
        return kind(**fields)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        name = kind.__name__.removesuffix("Spec").lower()
        raise argparse.ArgumentTypeError(f"invalid {name} options: {'; '.join(faults)}") from error


def positive(text: str) -> int:
    """A number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def natural(text: str) -> int:
    """A number from 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return number


def part(text: str) -> tuple[int, int]:
    """I/N, part I (from 0) of N."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form I/N with I from 0 to N-1")
    return int(index), int(count)


def registry_rewrite(text: str) -> RegistryRewrite:
    """PREFIX=REPLACEMENT."""
    prefix, equals, replacement = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form PREFIX=REPLACEMENT")
    return RegistryRewrite(prefix=prefix, replacement=replacement)


def pair(text: str) -> tuple[str, str]:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value
