"""The API key that engines and router ask of their clients; the operator puts it into the environment of Ray Pods.

Guarantee: it is in no command line, log or file of an engine or router.
"""

from __future__ import annotations

import os
from typing import Any

from swerl_api.names import API_KEY_VARIABLE


def api_key() -> str | None:
    """The key in this process's environment; None where engines ask for none."""
    return os.environ.get(API_KEY_VARIABLE) or None


def key_arguments() -> list[str]:
    """Arguments of an engine or router, for its own process alone: command lines are visible to others."""
    return ["--api-key", key] if (key := api_key()) else []


def hide_key_from_log() -> None:
    """SGLang logs all of its settings when it starts."""
    from sglang.srt.entrypoints import engine

    settings = engine._server_args_for_logging

    def without_key(server_args: Any) -> dict[str, Any]:
        return {**settings(server_args), "api_key": "(hidden)"}

    engine._server_args_for_logging = without_key
