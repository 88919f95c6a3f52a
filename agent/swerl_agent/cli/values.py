"""Values of options: numbers in a range, quantities, parts, pairs, and what the API's models make of them."""

from __future__ import annotations

import argparse
import json
import math
import re
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from swerl_api import RegistryRewrite
from swerl_api.base import QUANTITY

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


def http_url(text: str) -> str:
    """A URL with scheme and host."""
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL with scheme and host, such as http://router:30000")
    return text


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return number


def non_negative(text: str) -> float:
    """A finite number from 0."""
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number from 0")
    return number


def seconds(text: str) -> float:
    """A finite number above 0."""
    number = non_negative(text)
    if number == 0:
        raise argparse.ArgumentTypeError("0 is no time; give seconds above 0")
    return number


def quantity(text: str) -> str:
    """A Kubernetes quantity above 0."""
    if not re.match(QUANTITY, text) or not text.strip("0.KMGTPEeinumk"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Kubernetes quantity above 0, such as 500m or 2Gi")
    return text


def json_object(text: str) -> dict[str, Any]:
    """An object in JSON."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


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
