"""Templates, their filters, and addresses of pages."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from aiohttp import web

from swerl_agent.visible import visible

from .charts import figure

HERE = Path(__file__).parent
ASSETS = {
    name: ((HERE / "assets" / name).read_bytes(), kind)
    for name, kind in (
        ("console.css", "text/css"),
        ("console.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    )
}
ASSETS_VERSION = hashlib.sha256(b"".join(content for content, _ in ASSETS.values())).hexdigest()[:12]


def address(page: str, /, **values: Any) -> str:
    """The address of a page; values that are None are left out."""
    query = urlencode({name: str(value) for name, value in values.items() if value is not None}, errors="replace")
    return f"/{page}?{query}" if query else f"/{page}"


def when(nanoseconds: Any) -> str:
    """A time for people, in UTC."""
    try:
        return datetime.fromtimestamp(float(nanoseconds) / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


def seconds(value: Any) -> str:
    """A duration for people."""
    if not isinstance(value, int | float):
        return ""
    if value < 60:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def run_name(path: str, root_name: str = "") -> str:
    """How a run is called: its path below the viewed folder, or that folder's name."""
    return path or root_name or "this folder"


def figure_or_dash(value: Any) -> str:
    """A number in few characters; – where there is none."""
    return figure(float(value)) if isinstance(value, int | float) else "–"


class Pages:
    """Renders the templates of the console of one folder."""

    def __init__(self, root_name: str) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "visible": lambda value: visible("" if value is None else str(value)),
            "when": when,
            "seconds": seconds,
            "figure": figure_or_dash,
            "twice": lambda values: [(value, value) for value in values],
            "run_name": lambda path: visible(run_name(path, root_name)),
        }
        self._environment.globals |= {"address": address, "version": ASSETS_VERSION, "root_name": root_name}

    def answer(self, template: str, values: Mapping[str, Any], *, status: int = 200) -> web.Response:
        """The page of a template."""
        text = self._environment.get_template(f"{template}.html.j2").render(values)
        body = text.encode("utf-8", "replace")
        return web.Response(body=body, status=status, content_type="text/html", charset="utf-8")


def plain(text: str) -> web.Response:
    """A text as it is, which no browser renders."""
    answer = web.Response(body=text.encode("utf-8", "replace"), content_type="text/plain", charset="utf-8")
    answer.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return answer
