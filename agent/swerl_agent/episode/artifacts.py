"""The artifacts of an episode on disk.

Guarantees: one folder per episode. Files appear whole or not at all and hold nothing of the task's ground truth; the
record of its grading, which does, is in a folder of its own. An episode that ended inside `written_on_exit` is written,
whatever follows.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swerl_agent.audit import AuditFinding, executed, findings
from swerl_agent.grading import NO_PATCH, Verdict, record_content, record_path
from swerl_agent.storage import file_name, finish_in_thread, write_atomic

from .episode import Episode
from .live import SUFFIX, remove_live_file
from .metrics import agent_metrics

TRAJECTORY_FORMAT = "swerl-trajectory-1"
log = logging.getLogger(__name__)


def artifact_name(episode: Episode, ended: int | None = None) -> str:
    """Folder name: id, group, index and the time in nanoseconds (now if not given), which makes it unique."""
    return f"{artifact_prefix(episode)}{ended or time.time_ns()}"


def artifact_prefix(episode: Episode) -> str:
    """The folder's name up to the time: characters of a file name alone."""
    return f"{file_name(episode.instance_id)}__g{file_name(episode.group)}__i{episode.index}__"


def live_path(directory: Path, episode: Episode) -> Path:
    """Where the episode's live file is while it runs, beside the folder of its artifacts."""
    return directory / f"{artifact_prefix(episode)}{SUFFIX}"


@asynccontextmanager
async def written_on_exit(write: Callable[[Episode], object]) -> AsyncIterator[list[Episode]]:
    """Ended episodes that are not written yet: `on_end` adds them, the caller removes those that it writes.

    However the block ends, a thread passes each remaining episode to `write`; an error of the disk is logged.
    """
    left: list[Episode] = []
    try:
        yield left
    finally:
        for episode in left:
            try:
                await finish_in_thread(write, episode)
            except OSError as error:
                log.error("the artifacts of %s are not kept: %s", artifact_prefix(episode), error)


def write_artifacts(
    directory: Path,
    episode: Episode,
    verdict: Verdict | None,
    *,
    meta: Mapping[str, Any] | None = None,
    audit: Collection[AuditFinding] | None = None,
    ended: int | None = None,
) -> Path:
    """Write traj.json, patch.diff (if there is a patch) and meta.json; the new folder under `directory`.

    They replace the episode's live file. The record of the grading, which names tests, is beside the folder. `meta` is
    added to the episode's data in both JSON files (sampling parameters, step, reward; no reward is None); `audit` what
    the audit found in it, looked for here if not given. The verdict names the rules of what was found, also that of an
    agent that left no patch to grade. `group_index` and `eval_result` say again what `group` and `verdict` do, under
    the names that other readers know. `ended`: nanoseconds since 1970, if not now. Raises OSError when the disk
    refuses.
    """
    folder = directory / artifact_name(episode, ended)
    folder.mkdir(parents=True)
    found = findings(executed(episode.commands)) if audit is None else audit
    info = _info(episode, verdict, found) | dict(meta or {})
    trajectory = {
        "trajectory_format": TRAJECTORY_FORMAT,
        "info": info,
        "messages": episode.messages,
        "step_debug": episode.commands,
        "segments": [asdict(segment) for segment in episode.segments],
    }
    files = {"meta.json": _json(info), "traj.json": _json(trajectory)}
    if episode.patch is not None:
        files["patch.diff"] = episode.patch.encode("utf-8", "surrogateescape")
    written = {folder / name: [files[name]] for name in sorted(files)}
    if record := record_content(verdict) if verdict else None:
        written = {record_path(folder): [record], **written}
    write_atomic(written, durable=False)
    remove_live_file(live_path(directory, episode))
    return folder


def _info(episode: Episode, verdict: Verdict | None, found: Collection[AuditFinding]) -> dict[str, Any]:
    """What both JSON files say of the episode."""
    public = _public_verdict(episode, verdict, found)
    return {
        "instance_id": episode.instance_id,
        "group": episode.group,
        "group_index": episode.group,
        "index": episode.index,
        "agent_name": episode.agent_name,
        "image": episode.image,
        "exit_status": episode.exit_status,
        "error": episode.error,
        "error_code": episode.error_code,
        "infrastructure_error": episode.infrastructure_error,
        "turns": episode.turns,
        "steps": len(episode.commands),
        "format_errors": episode.format_errors,
        "omitted_turns": episode.omitted_turns,
        "patch_source": episode.patch_source,
        "patch_left_out": episode.patch_left_out,
        "reward": None,
        "verdict": public,
        "eval_result": public,
        "audit": [asdict(finding) for finding in found],
        "timings": episode.timings,
        "usage": episode.usage,
        "agent_metrics": agent_metrics(episode, eval_time=verdict.duration if verdict else None),
    }


def _public_verdict(
    episode: Episode, verdict: Verdict | None, found: Collection[AuditFinding]
) -> dict[str, Any] | None:
    """The verdict with the rules of what was found; None where a patch was not graded, or an error kept it away."""
    if verdict is None and episode.patch is None and not episode.error_code:
        verdict = NO_PATCH
    return verdict.public() | {"audit": sorted({finding.rule for finding in found})} if verdict else None


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=True) + "\n").encode()
