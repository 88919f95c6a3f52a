"""Checks that an SGLang server or router serves the intended model.

Guarantee: only a contradicting report of the server is an error. If the server reports nothing, or does not answer, the
check is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from .engine import EndpointError

INFO = ("/model_info", "/get_model_info")  # the newer name first
LIST = "/v1/models"
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=10)
PLACEHOLDER_NAMES = ("", "unknown", "default", "none")
_SNAPSHOT = re.compile(r".*models--(.+?)/snapshots/[^/]+")  # where the Hugging Face cache keeps org--name
CHANGE_MODEL = "--model, or model.endpoint.model of a SweEval"
CHANGE_TOKENIZER = "--tokenizer, or model.endpoint.tokenizer of a SweEval"


@dataclass(frozen=True)
class Served:
    """A server's report of its model; empty fields were not reported."""

    names: tuple[str, ...] = ()  # names and paths, each once
    kind: str = ""  # model_type of its config.json
    architectures: tuple[str, ...] = ()


async def check_served(base_url: str, http: aiohttp.ClientSession, *, model: str | None, tokenizer: str | Path) -> None:
    """Raises EndpointError when the server at `base_url` says that it serves another model than `model`.

    Without a name, another kind of model than the config.json in the folder `tokenizer` describes, if one is there.
    """
    found = await served(base_url, http)
    if problem := disagreement(found, model, _config(Path(tokenizer))):
        raise EndpointError(f"{base_url} {problem}")


async def served(base_url: str, http: aiohttp.ClientSession) -> Served:
    """The report of the server at `base_url`."""
    base = base_url.rstrip("/")
    info: Mapping[str, Any] = {}
    for path in INFO:
        if info := await _get_json(http, base + path):
            break
    listed = (await _get_json(http, base + LIST)).get("data")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [info.get("served_model_name"), info.get("model_path"), *(entry.get("id") for entry in entries)]
    known_names = [name for name in names if isinstance(name, str) and name.lower() not in PLACEHOLDER_NAMES]
    architectures = info.get("architectures")
    return Served(
        tuple(dict.fromkeys(known_names)),
        str(info.get("model_type") or ""),
        tuple(map(str, architectures)) if isinstance(architectures, list) else (),
    )


def disagreement(found: Served, model: str | None, config: Mapping[str, Any]) -> str | None:
    """In what `found` is another model than the one called `model`, or described by `config`; None when in nothing."""
    names = ", ".join(found.names)
    if model is not None and found.names and not any(_same(model, name) for name in found.names):
        return f"serves {names}, not {model}; ask another server, or name the model with {CHANGE_MODEL}"
    kind, architectures = str(config.get("model_type") or ""), set(config.get("architectures") or ())
    if found.kind and kind and found.kind != kind:
        expected, actual = kind, found.kind
    elif found.architectures and architectures and not architectures & set(found.architectures):
        expected, actual = ", ".join(sorted(architectures)), ", ".join(found.architectures)
    else:
        return None
    return (
        f"serves a model of kind {actual} ({names or 'without a name'}), the tokenizer's folder is of one of kind "
        f"{expected}; give that of the served model with {CHANGE_TOKENIZER}"
    )


def _same(one: str, other: str) -> bool:
    """Whether two names mean one model: they are equal, or their last parts, for either may be a path."""
    first, second = (_SNAPSHOT.sub(r"\1", name.strip().rstrip("/").lower()).replace("--", "/") for name in (one, other))
    return first == second or first.rpartition("/")[2] == second.rpartition("/")[2]


async def _get_json(http: aiohttp.ClientSession, url: str) -> Mapping[str, Any]:
    try:
        async with http.get(url, timeout=REQUEST_TIMEOUT) as response:
            found = json.loads(await response.text("utf-8", "replace")) if response.status == 200 else {}
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _config(folder: Path) -> Mapping[str, Any]:
    """The config.json there; empty when there is none that can be read."""
    try:
        found = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
