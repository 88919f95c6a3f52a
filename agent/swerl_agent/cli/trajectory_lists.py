"""`swerl trajectories ls`, `show` and `diff`: stored episodes in the terminal.

Guarantee: texts of episodes are printed with their control characters shown, never interpreted, also as JSON.
"""

from __future__ import annotations

import asyncio
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from swerl_agent.jobs import table
from swerl_agent.trajectories.fields import mapping, number, text
from swerl_agent.trajectories.gradings import read_grading
from swerl_agent.trajectories.stored import StoredEpisode, read_episode
from swerl_agent.trajectories.trajectory import Command, Turn
from swerl_agent.visible import visible

from .command import Options, runs
from .episode_folder import META, episode_files, episode_grading, indexed
from .options import cluster_options
from .output import output_option, print_result
from .values import PATH, POSITIVE

HEADS = ("TASK", "STEP", "ROLLOUT", "VERDICT", "REWARD", "TURNS", "PATH")
RESOLVED = ("yes", "no", "lost")  # as the console's list takes them


@click.command(
    "ls",
    help="List ended episodes, the newest first.\n\n"
    "FOLDER: that of a job or an evaluation, one that contains some, or the name of a SweRLJob.",
)
@click.argument("folder", type=PATH)
@click.option("--resolved", type=click.Choice(RESOLVED), help="lost: infrastructure ended the episode")
@click.option("--task", metavar="ID", help="episodes of this task")
@click.option("--status", metavar="VERDICT", help="episodes with this verdict, such as unresolved or infra_error")
@click.option("--limit", type=POSITIVE, default=50, metavar="N", help="episodes to print (default 50)")
@output_option
@cluster_options
@runs
async def list_episodes(options: Options) -> int:
    """0."""
    chosen = {"resolved": options.resolved, "task": options.task, "verdict": options.status}
    given = {name: value for name, value in chosen.items() if value}
    async with episode_files(options, options.folder, META) as folder:
        total, rows = await asyncio.to_thread(_episodes, folder, given, options.limit)
    found = [_listed(options.folder, row) for row in rows]
    left = total - len(found)
    lines = [*table(HEADS, map(_row, found)), *([f"{left} episodes more; --limit prints more"] if left else [])]
    print_result(options, {"episodes": found, "total": total}, lines if found else ["no episodes"])
    return 0


def _episodes(folder: Path, given: Mapping[str, str], limit: int) -> tuple[int, list[Any]]:
    """How many episodes pass the filters, and the first `limit` of them."""
    from swerl_agent.console.query import PAGE, Filters, episodes  # needs packages that `show` and `diff` do not

    with indexed(folder) as database:
        total, found = episodes(database, Filters(given), 0)
        for page in range(1, -(-min(limit, total) // PAGE)):
            found += episodes(database, Filters(given), page)[1]
    return total, found[:limit]


def _listed(folder: Path, row: Any) -> dict[str, Any]:
    texts = {name: visible(row[name]) for name in ("task", "verdict", "exit_status", "purpose")}
    numbers = {name: row[name] for name in ("step", "member", "reward", "turns")}
    resolved = None if row["resolved"] is None else bool(row["resolved"])
    return texts | numbers | {"resolved": resolved, "path": visible(str(folder / row["path"]))}


def _row(episode: dict[str, Any]) -> tuple[str, ...]:
    def shown(name: str, form: str = "") -> str:
        return "-" if episode[name] is None else format(episode[name], form)

    verdict = episode["verdict"] or episode["exit_status"] or "-"
    columns = episode["task"], shown("step"), shown("member"), verdict, shown("reward", "g"), shown("turns")
    return tuple(column.replace("\n", " ") for column in (*columns, episode["path"]))


@click.command(
    "show",
    help="Print an episode: each turn with its results, the verdict with its reason, the patch.\n\n"
    "EPISODE: a path that `swerl trajectories ls` prints; of a SweRLJob it begins with the job's name.",
)
@click.argument("episode", type=PATH)
@click.option("--grading", is_flag=True, help="also the outcome of each test, and the log of the grading")
@output_option
@cluster_options
@runs
async def show_episode(options: Options) -> int:
    """0."""
    chosen = options, options.episode
    files = episode_grading(*chosen) if options.grading else episode_files(*chosen)
    async with files as folder:
        document = {"path": visible(str(options.episode))} | _document(read_episode(folder))
        if options.grading:
            document["grading"] = _grading(folder)
    print_result(options, document, _lines(document))
    return 0


def _document(episode: StoredEpisode) -> dict[str, Any]:
    info, verdict = episode.info, mapping(episode.info.get("verdict"))
    opening = [{"role": visible(role), "content": visible(content)} for _, role, content in episode.trajectory.opening]
    reason = text(verdict.get("detail")) or text(info.get("error"))
    return {
        "task": visible(episode.task),
        "model": visible(episode.model),
        "exit_status": visible(text(info.get("exit_status"))),
        "reward": number(info.get("reward")),
        "opening": opening,
        "turns": [_turn(turn) for turn in episode.trajectory.turns],
        "verdict": {"status": visible(text(verdict.get("status"))), "reason": visible(reason)},
        "patch": visible(episode.patch),
    }


def _grading(episode: Path) -> dict[str, Any] | None:
    found = read_grading(episode)
    if found is None:
        return None
    tests = [{name: visible(value) for name, value in asdict(test).items()} for test in found.tests]
    return {"reason": visible(found.reason), "tests": tests, "log": visible(found.log)}


def _turn(turn: Turn) -> dict[str, Any]:
    results = [_result(*each) for each in turn.results()]
    return {"number": turn.number + 1, "content": visible(turn.content), "results": results}


def _result(command: Command | None, role: str, content: str) -> dict[str, Any]:
    exit_code = command.exit_code if command else None
    return {"role": visible(role), "exit_code": exit_code, "content": visible(content)}


def _lines(episode: dict[str, Any]) -> Iterator[str]:
    """The document as text; a line of dashes begins each part."""
    reward, verdict = episode["reward"], episode["verdict"]
    facts = [episode["task"], episode["model"], episode["exit_status"]]
    yield ", ".join([*filter(None, facts), *([] if reward is None else [f"reward {reward:g}"])])
    yield episode["path"]
    for message in episode["opening"]:
        yield from _part(message["role"], message["content"])
    for turn in episode["turns"]:
        yield from _part(f"turn {turn['number']}", turn["content"])
        for result in turn["results"]:
            code = "" if result["exit_code"] is None else f", exit code {result['exit_code']}"
            yield from _part(f"turn {turn['number']}: result{code}", result["content"])
    yield from _part(f"verdict: {verdict['status'] or 'none'}", verdict["reason"])
    if "grading" in episode:
        yield from _grading_lines(episode["grading"])
    yield from _part("patch", episode["patch"] or "none")


def _grading_lines(grading: dict[str, Any] | None) -> Iterator[str]:
    if grading is None:
        yield from _part("grading", "no log is kept: the patch was not run, or the episode is older than such logs")
        return
    yield from _part(
        "tests", "\n".join(f"{test['outcome']:9} {test['kind']} {test['name']}" for test in grading["tests"])
    )
    yield from _part("grading log", grading["log"])


def _part(head: str, content: str) -> Iterator[str]:
    yield ""
    yield f"--- {head} ---"
    if content:
        yield content.removesuffix("\n")


@click.command(
    "diff",
    help="Compare the patches of two episodes; exit code 0 if they are equal, 1 if not.\n\n"
    "ONE, OTHER: paths that `swerl trajectories ls` prints; of a SweRLJob they begin with the job's name.",
)
@click.argument("one", type=PATH)
@click.argument("other", type=PATH)
@output_option
@cluster_options
@runs
async def diff_patches(options: Options) -> int:
    """0 when the patches are equal, 1 when they differ."""
    async with episode_files(options, options.one) as first, episode_files(options, options.other) as second:
        one, other = read_episode(first).patch, read_episode(second).patch
    before, after = (str(folder / "patch.diff") for folder in (options.one, options.other))
    lines = list(_diff_lines(difflib.unified_diff(_split(one), _split(other), before, after)))
    print_result(options, {"equal": one == other, "diff": lines}, lines)
    return int(one != other)


def _diff_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines without their ends; as diff(1) does, one more where an end is missing."""
    for line in lines:
        yield visible(line.removesuffix("\n"))
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _split(patch: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    return list(io.StringIO(patch, newline="\n"))
