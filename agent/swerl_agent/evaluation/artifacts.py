"""The folders that attempts leave in an output folder.

Guarantees: the files of an attempt name the model and the limits it was made with, and never a key; what a try without
a result left is there until the next try at the same attempt leaves its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from swerl_api import AgentSpec

from swerl_agent.episode import Episode, GradedEpisode, artifact_prefix, write_artifacts

INTERRUPTED = "interrupted"  # what the files of a try say that came to no result


def made_with(model: str, api_base: str, spec: AgentSpec) -> dict[str, Any]:
    """What the files of an attempt say of how it was made; of the address neither user, password nor query."""
    return {
        "model": model,
        "api_base": bare_address(api_base),
        "step_limit": spec.step_limit,
        "max_tokens": spec.max_tokens_per_turn,
    }


def bare_address(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def write_attempt(folder: Path, sample: GradedEpisode, meta: Mapping[str, Any]) -> Path:
    """The new folder of an attempt that came to its end; `meta` is added to its files. Raises OSError."""
    return _replacing(folder, sample.episode, sample, {**meta, "reward": sample.reward, INTERRUPTED: False})


def write_interrupted(folder: Path, episode: Episode, meta: Mapping[str, Any]) -> Path:
    """The same of an episode whose attempt came to no result."""
    return _replacing(folder, episode, None, {**meta, INTERRUPTED: True})


def _replacing(folder: Path, episode: Episode, sample: GradedEpisode | None, meta: Mapping[str, Any]) -> Path:
    before = list(_interrupted(folder, episode))
    written = write_artifacts(folder, episode, sample.verdict if sample else None, meta=meta)
    for each in before:
        shutil.rmtree(each, ignore_errors=True)
    return written


def _interrupted(folder: Path, episode: Episode) -> Iterator[Path]:
    """What tries at the same attempt left that came to no result."""
    for meta in folder.glob(f"{artifact_prefix(episode)}*/meta.json"):
        try:
            said = json.loads(meta.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(said, dict) and said.get(INTERRUPTED):
            yield meta.parent
