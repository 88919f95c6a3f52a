"""Episodes in the formats of other viewers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from swerl_agent.audit import TrajectoryError

from .harbor_job import HarborJob
from .inspect_log import InspectLog
from .stored import EpisodeSet, episode_sets, without_tokens

ExportFormat = Literal["atif", "inspect"]
FORMATS: tuple[ExportFormat, ...] = ("atif", "inspect")
OnError = Callable[[TrajectoryError], None]


@dataclass
class ExportCount:
    """What an export did."""

    episodes: int = 0
    failed: int = 0
    written: list[Path] = field(default_factory=list)  # folders of harbor jobs, or logs


def export_trajectories(
    root: Path, output: Path, format: ExportFormat, *, tokens: bool = True, on_error: OnError
) -> ExportCount:
    """Write every episode below `root` to `output`; `on_error` gets the error of each one that is left out.

    `tokens`: with ids, log-probs and loss mask, where they are kept. Raises TrajectoryError where there is no episode
    and for an `output` inside `root`, and OSError when the disk refuses.
    """
    if output.resolve().is_relative_to(root.resolve()):
        raise TrajectoryError(f"{output} lies inside {root}, whose episodes are read; choose another output folder")
    sets = episode_sets(root)
    if not sets:
        raise TrajectoryError(f"{root} holds no episode; name the folder of a job, an evaluation or an episode")
    count = ExportCount()
    for each in sets:
        _export_set(each, output, format, tokens, count, on_error)
    return count


def _export_set(
    chosen: EpisodeSet, output: Path, format: ExportFormat, tokens: bool, count: ExportCount, on_error: OnError
) -> None:
    path = output / (chosen.name if format == "atif" else f"{chosen.name}.eval")
    writer = HarborJob(path) if format == "atif" else InspectLog(path)
    before = count.episodes
    try:
        for episode in chosen.episodes():
            if isinstance(episode, TrajectoryError):
                count.failed += 1
                on_error(episode)
                continue
            try:
                writer.add(episode if tokens else without_tokens(episode))
                count.episodes += 1
            except (ValueError, RecursionError) as error:
                count.failed += 1
                on_error(TrajectoryError(f"{episode.folder} cannot be exported: {type(error).__name__}: {error}"))
        if count.episodes > before:
            writer.finish()
            count.written.append(path)
    finally:
        writer.close()
