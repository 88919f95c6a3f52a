"""Types of options: numbers in a range, quantities, URLs, parts, pairs, and what the API's models make of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
from pydantic import BaseModel, ValidationError
from swerl_api import RegistryRewrite
from swerl_api.base import QUANTITY as QUANTITY_PATTERN

Model = TypeVar("Model", bound=BaseModel)


def checked(kind: type[Model], /, **fields: Any) -> Model:
    """The model of these fields; raises UsageError naming the field that is invalid."""
    try:
        return kind(**fields)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        name = kind.__name__.removesuffix("Spec").lower()
        raise click.UsageError(f"invalid {name} options: {'; '.join(faults)}") from error


class Checked(click.ParamType[Any]):
    """The type of a function that raises ValueError with what is wrong; `--help` calls its values `name`."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; defaults are values already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _number(text: str, kind: Callable[[str], Any], name: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a {name}") from None


def _integer(text: str) -> int:
    return int(_number(text, int, "whole number"))


def _positive(text: str) -> int:
    if (number := _integer(text)) < 1:
        raise ValueError(f"{text} is not positive")
    return number


def _natural(text: str) -> int:
    if (number := _integer(text)) < 0:
        raise ValueError(f"{text} is negative")
    return number


def _port(text: str) -> int:
    if not 0 <= (number := _integer(text)) < 1 << 16:
        raise ValueError(f"{text} is not a port from 0 to 65535")
    return number


def _http_url(text: str) -> str:
    if "://" not in text:
        raise ValueError(f"{text!r} has no scheme; use http://{text}")
    try:
        url = urlsplit(text)
        valid = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError as error:
        raise ValueError(f"{text!r} is no URL: {error}") from error
    if not valid:
        raise ValueError(f"{text!r} is not a URL with scheme and host, such as http://router:30000")
    return text


def _fraction(text: str) -> float:
    if not 0 <= (number := _number(text, float, "number")) <= 1:
        raise ValueError(f"{text} is not from 0 to 1")
    return float(number)


def _non_negative(text: str) -> float:
    number = _number(text, float, "number")
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{text} is not a finite number from 0")
    return float(number)


def _seconds(text: str) -> float:
    if (number := _non_negative(text)) == 0:
        raise ValueError("a duration of 0 is invalid; give seconds above 0")
    return number


def _quantity(text: str) -> str:
    if not re.match(QUANTITY_PATTERN, text) or not text.strip("0.KMGTPEeinumk"):
        raise ValueError(f"{text!r} is not a Kubernetes quantity above 0, such as 500m or 2Gi")
    return text


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a JSON object")
    return value


def _part(text: str) -> tuple[int, int]:
    """Part I (from 0) of N."""
    index, slash, count = text.partition("/")
    if not (slash and index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise ValueError(f"{text!r} is not of the form I/N with I from 0 to N-1")
    return int(index), int(count)


def _registry_rewrite(text: str) -> RegistryRewrite:
    prefix, equals, replacement = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not of the form PREFIX=REPLACEMENT")
    return RegistryRewrite(prefix=prefix, replacement=replacement)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise ValueError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


PATH: click.Path = click.Path(path_type=Path)
INTEGER = Checked("N", _integer)
POSITIVE = Checked("N", _positive)  # from 1
NATURAL = Checked("N", _natural)  # from 0
PORT = Checked("PORT", _port)  # 0: a free one
FRACTION = Checked("R", _fraction)  # 0 to 1
NON_NEGATIVE = Checked("X", _non_negative)  # finite
SECONDS = Checked("SECONDS", _seconds)  # finite, above 0
QUANTITY = Checked("QUANTITY", _quantity)
HTTP_URL = Checked("URL", _http_url)
JSON_OBJECT = Checked("JSON", _json_object)
PART = Checked("I/N", _part)
REGISTRY_REWRITE = Checked("PREFIX=REPLACEMENT", _registry_rewrite)
PAIR = Checked("KEY=VALUE", _pair)
