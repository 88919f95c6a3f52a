"""The folders of samples in an output folder.

Guarantees: the files of a sample name its model and limits, and never a key. The folder of an interrupted sample stays
until a retry of the sample writes its own.
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

INTERRUPTED = "interrupted"  # key in the files: the sample ended without a result


def sample_metadata(model: str, api_base: str, spec: AgentSpec) -> dict[str, Any]:
    """Metadata of a sample's files; the address has neither user, password nor query."""
    return {
        "model": model,
        "api_base": url_without_secrets(api_base),
        "step_limit": spec.step_limit,
        "max_tokens": spec.max_tokens_per_turn,
    }


def url_without_secrets(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def write_sample(folder: Path, sample: GradedEpisode, meta: Mapping[str, Any]) -> Path:
    """The new folder of a finished sample; `meta` is added to its files. Raises OSError."""
    return _replace_interrupted(folder, sample.episode, sample, {**meta, "reward": sample.reward, INTERRUPTED: False})


def write_interrupted(folder: Path, episode: Episode, meta: Mapping[str, Any]) -> Path:
    """The new folder of an episode whose sample has no result; `meta` is added to its files. Raises OSError."""
    return _replace_interrupted(folder, episode, None, {**meta, INTERRUPTED: True})


def _replace_interrupted(folder: Path, episode: Episode, sample: GradedEpisode | None, meta: Mapping[str, Any]) -> Path:
    before = list(_interrupted(folder, episode))
    written = write_artifacts(folder, episode, sample.verdict if sample else None, meta=meta)
    for each in before:
        shutil.rmtree(each, ignore_errors=True)
    return written


def _interrupted(folder: Path, episode: Episode) -> Iterator[Path]:
    """Folders of earlier episodes of the same sample without a result."""
    for meta in folder.glob(f"{artifact_prefix(episode)}*/meta.json"):
        try:
            content = json.loads(meta.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get(INTERRUPTED):
            yield meta.parent
