"""A set of episodes as a folder of harbor's jobs, which `harbor view` opens.

Each episode is a trial: `agent/trajectory.json` in ATIF, `result.json`, and the final diff in `artifacts/`.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from swerl_agent.storage import file_name, write_atomic

from .atif import atif
from .fields import integer, mapping, number, text
from .harbor_stats import HarborStats
from .portable import given, iso_time, portable, portable_json, whole_text
from .stored import StoredEpisode
from .viewer_fields import agent_name, agent_version, rewards


class HarborJob:
    """Writes the folder of one job: `add` each episode, then `finish`, and `close` at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stats = HarborStats()
        self._agents: dict[tuple[str, str], dict[str, str]] = {}
        self._sources: set[str] = set()
        self._times: list[str] = []

    def add(self, episode: StoredEpisode) -> None:
        """Write a trial. Raises OSError, and ValueError or RecursionError for what cannot be converted."""
        name = file_name(episode.folder.name)[-200:]
        trial, result = self._folder / name, _result(episode, name)
        files = {
            trial / "agent/trajectory.json": [portable_json(atif(episode))],
            trial / "result.json": [portable_json(result)],
        }
        if episode.patch:
            files[trial / "artifacts/patch.diff"] = [whole_text(episode.patch).encode()]
        write_atomic(files, durable=False)
        self._stats.add(result)
        self._times += [result[name] for name in ("started_at", "finished_at") if name in result]
        self._sources.update({episode.data} - {""})
        agent, model = agent_name(episode.info), episode.model
        self._agents[agent, model] = given(name=agent, model_name=model or None)

    def finish(self) -> None:
        """Write the job's own files; raises OSError."""
        result = given(
            id=_identity(str(self._folder)),
            started_at=min(self._times, default=iso_time(0.0)),
            finished_at=max(self._times, default=None),
            n_total_trials=self._stats.trials,
            stats=self._stats.stats(),
        )
        datasets = [{"name": source} for source in sorted(self._sources)]
        config = {"job_name": self._folder.name, "agents": list(self._agents.values()), "datasets": datasets}
        files = {"result.json": [portable_json(result)], "config.json": [portable_json(config)]}
        write_atomic({self._folder / name: content for name, content in files.items()}, durable=False)

    def close(self) -> None:
        """Nothing is open."""


def _result(episode: StoredEpisode, name: str) -> dict[str, Any]:
    info, usage = episode.info, mapping(episode.info.get("usage"))
    agent, model, task = agent_name(info), episode.model or None, file_name(episode.task)
    started = iso_time(episode.ended - (episode.seconds or 0.0))
    span = given(started_at=started, finished_at=iso_time(episode.ended))
    found = given(
        id=_identity(episode.folder.name),
        task_name=task,
        trial_name=name,
        trial_uri=name,
        task_id={"path": task},
        source=episode.data or None,
        task_checksum="",
        config={"task": {"path": task}, "trial_name": name, "agent": given(name=agent, model_name=model)},
        agent_info=given(name=agent, version=agent_version(info), model_info={"name": model} if model else None),
        agent_result=given(
            n_input_tokens=integer(usage.get("prompt_tokens")),
            n_cache_tokens=integer(usage.get("cached_tokens")),
            n_output_tokens=integer(usage.get("completion_tokens")),
            cost_usd=number(usage.get("cost_usd")),
            metadata={name: info.get(name) for name in ("exit_status", "error", "group", "index", "step", "verdict")},
        ),
        verifier_result={"rewards": rewards(episode)} if rewards(episode) else None,
        exception_info=_exception(episode),
        agent_execution=span,
        **span,
    )
    result = portable(found)
    assert isinstance(result, dict)
    return result


def _exception(episode: StoredEpisode) -> dict[str, Any] | None:
    info = episode.info
    kind = next((name for name in ("infrastructure_error", "interrupted") if info.get(name)), None)
    if kind is None:
        return None
    return {
        "exception_type": text(info.get("error_code")) or kind,
        "exception_message": text(info.get("error")),
        "exception_traceback": "",
        "occurred_at": iso_time(episode.ended),
    }


def _identity(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"swerl:{whole_text(name)}"))
