"""One episode as a row of the index, from its meta.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from swerl_agent.trajectories.fields import integer, listed, mapping, number, text
from swerl_agent.trajectories.runs import EPISODE, EpisodesFolder
from swerl_agent.trajectories.stored import purpose_of

LONGEST = 1_000  # characters of a field


@dataclass(frozen=True)
class EpisodeRow:
    """What lists show of an episode, and what filters look at."""

    path: str  # relative to the viewed folder
    folder: str
    run: str
    purpose: str  # train | evaluation | sample
    step: int | None
    task: str
    group_id: str
    member: int | None
    verdict: str
    exit_status: str
    resolved: int | None  # None: the episode says nothing about the model
    reward: float | None
    turns: int | None
    seconds: float | None
    findings: str  # names of rules, each between spaces
    reason: str  # of the verdict or the error, for people
    agent: str
    ended: int  # nanoseconds since 1970
    words: str  # what a search looks at, in lower case

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(field.name for field in fields(cls))


def episode_row(folder: EpisodesFolder, name: str, meta: Mapping[str, Any]) -> EpisodeRow:
    """The row of the episode in `folder`/`name` with the content of its meta.json."""
    matched = EPISODE.fullmatch(name)
    member, ended = (integer(int(matched[1])) or 0, integer(int(matched[2])) or 0) if matched else (0, 0)
    purpose, step = purpose_of(folder.path, meta)
    verdict = mapping(meta.get("verdict"))
    status, exit_status = text(verdict.get("status")), text(meta.get("exit_status"))
    reason = text(verdict.get("detail")) or text(meta.get("error"))
    rules = sorted({text(mapping(each).get("rule")) for each in listed(meta.get("audit"))} - {""})
    lost = bool(meta.get("infrastructure_error")) or status == "infra_error" or bool(meta.get("interrupted"))
    task, group = text(meta.get("instance_id")) or name.partition("__g")[0], text(meta.get("group"))
    path = f"{folder.path}/{name}" if folder.path else name
    searched = (path, task, group, status, exit_status, reason, text(meta.get("error_code")), *rules)
    return EpisodeRow(
        path=path,
        folder=folder.path,
        run=folder.run,
        purpose=purpose,
        step=step,
        task=_short(task),
        group_id=_short(group),
        member=integer(meta.get("index")) if "index" in meta else member,
        verdict=_short(status),
        exit_status=_short(exit_status),
        resolved=None if lost or not status else int(status == "resolved"),
        reward=number(meta.get("reward")),
        turns=integer(meta.get("turns")),
        seconds=number(mapping(meta.get("agent_metrics")).get("total_time")),
        findings=_short(f" {' '.join(rules)} ") if rules else "",
        reason=_short(reason),
        agent=_short(text(meta.get("agent_name"))),
        ended=ended,
        words=_short("\n".join(searched), 4 * LONGEST).lower(),
    )


def _short(value: str, most: int = LONGEST) -> str:
    """At most `most` characters that SQLite can hold."""
    return value[:most].encode("utf-8", "replace").decode()
