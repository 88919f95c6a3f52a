"""Answers that are kept: `<folder>/<subset>/<model>/<instance_id>/<instance_id>.json`, the newest of each task.

Next to it are folders of artifacts, one of each episode without an answer.

Guarantee: a file is whole, and nothing a client sends leads out of the folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from swerl_agent.episode import Episode, write_artifacts
from swerl_agent.evaluation import url_without_secrets
from swerl_agent.storage import file_name, write_atomic

from .request import RunRequest


class AnswerStore:
    """The answers of one model. Calls may block: not for an event loop."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model = folder, model

    def path(self, request: RunRequest) -> Path:
        """Where the answer to `request` lies."""
        name = file_name(request.task.instance_id)
        subset = file_name(request.subset or "default")
        return self._folder / subset / file_name(self._model) / name / f"{name}.json"

    def read(self, request: RunRequest) -> bytes | None:
        """An answer given before, None when there is none that can be read."""
        try:
            data = self.path(request).read_bytes()
            return data if "reward" in json.loads(data) else None
        except (OSError, ValueError, TypeError):
            return None

    def write_unanswered(self, request: RunRequest, episode: Episode) -> None:
        """Write the artifacts of an episode without an answer beside the place of the answer; raises OSError."""
        made = {"model": self._model, "api_base": url_without_secrets(request.engine)}
        meta = made | {"sampling_params": asdict(request.sampling)}
        write_artifacts(self.path(request).parent, episode, None, meta=meta)

    def write(self, request: RunRequest, answer: bytes) -> None:
        """Keep an answer; raises OSError."""
        write_atomic({self.path(request): [answer]})
