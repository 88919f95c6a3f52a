"""mini-swe-agent's templates, rendered in the sandbox of all templates, and which of them did not render."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import jinja2

from swerl_agent.episode import PromptError
from swerl_agent.episode.rendering import failed_line, failure, render

PACKAGE = "minisweagent"
SECTIONS = ("agent", "model")  # of its configuration


class SandboxedTemplate:
    """In the place of `jinja2.Template`: the author of a configuration gets no code run in this process."""

    def __init__(self, source: str, **_options: Any) -> None:
        self._source = source

    def render(self, **variables: Any) -> str:
        """See episode.rendering."""
        return render(self._source, **variables)


def sandbox_templates() -> None:
    """Have every module of mini-swe-agent that is imported render with SandboxedTemplate."""
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] == PACKAGE and vars(module).get("Template") is jinja2.Template:
            vars(module)["Template"] = SandboxedTemplate


def failed_template(error: Exception, config: Mapping[str, Any]) -> PromptError | None:
    """`error` as that of the template of `config` that raised it, or of one of the package's own; None for others."""
    if failed_line(error) is None:
        return None
    name, text = next(_used(error, config), ("a template of mini-swe-agent's own", ""))
    found = PromptError(f"{name} does not render: {failure(error, text)}")
    found.__cause__ = error
    return found


def _used(error: Exception, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Templates (name, text) that mini-swe-agent's functions held which `error` went through, the innermost first."""
    named = {
        text: f"{section}.{name}"
        for section in SECTIONS
        for name, text in (config.get(section) or {}).items()
        if isinstance(text, str) and name.endswith("_template")
    }
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        own = str(frame.f_globals.get("__name__")).startswith(PACKAGE)
        held = [value for value in frame.f_locals.values() if own and isinstance(value, str)]
        yield from ((named[text], text) for text in held if text in named)
