"""One handler per page. Reading happens in threads; only episodes that the index has can be opened."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from swerl_api.names import SANDBOXES_FILE

from swerl_agent.episode.live import SUFFIX
from swerl_agent.evaluation.comparison import compare
from swerl_agent.evaluation.summary import wilson
from swerl_agent.tasks import TaskError
from swerl_agent.trajectories.fields import integer, read_object
from swerl_agent.trajectories.gradings import read_grading
from swerl_agent.trajectories.live import live_trajectory
from swerl_agent.trajectories.stored import load, patch_of

from . import query
from .access import VISITOR
from .blocks import Budget
from .charts import chart
from .diff import read_diff
from .episode_page import episode_values, side_by_side, token_values, trajectory_values
from .grading_section import grading_values
from .ground_truth import GroundTruthSource
from .index import EpisodeIndex
from .rendering import Pages, address, plain
from .sandboxes import read_sandboxes
from .series import CURVES, read_metrics

T = TypeVar("T")
SHOWN_TASKS = 500  # of a comparison
SHOWN_RUNNING = 200  # episodes of a job or an evaluation
MOST_RUNS = 200  # whose values the filters offer


@dataclass(frozen=True)
class Handlers:
    """The pages of one folder."""

    index: EpisodeIndex
    pages: Pages
    ground_truth: GroundTruthSource | None = None
    gradings: bool = False  # whether visitors with the right to ground truth see tests and logs of gradings
    decode: Callable[[int], str] | None = None

    async def runs(self, request: web.Request) -> web.Response:
        """Jobs and evaluations."""
        found = await self._ask(query.runs)
        running = Counter(row["run"] for row in self.index.running.values())
        return self.pages.answer("runs", {"runs": found, "running": running, "indexing": not self.index.scans})

    async def run(self, request: web.Request) -> web.Response:
        """One job or evaluation: figures, curves, its newest episodes."""
        path = request.query.get("path", "")
        runs = {row["path"]: row for row in await self._ask(query.runs)}
        if path not in runs:
            raise web.HTTPNotFound(text="no such job or evaluation\n")
        folder = self.index.root / path
        metrics = await asyncio.to_thread(read_metrics, folder / "metrics.jsonl")
        summary = await asyncio.to_thread(read_object, folder / "summary.json")
        sandboxes = await asyncio.to_thread(read_sandboxes, folder / SANDBOXES_FILE)
        filters = query.Filters({"run": path})
        _, newest = await self._ask(lambda database: query.episodes(database, filters, 0))
        metric_names = [name for name in request.query.getall("metric", []) if name in metrics.series][:8]
        curves = [chart(name, [name], metrics.series) for name in metric_names]
        curves += [chart(title, names, metrics.series) for title, names in CURVES]
        return self.pages.answer(
            "run",
            {
                "run": runs[path],
                "others": [other for other in runs.values() if other["path"] != path],
                "metrics": metrics,
                "newest_values": metrics.newest(),
                "charts": [each for each in curves if each],
                "summary": summary,
                "sandboxes": sandboxes,
                "interval": _interval(runs[path]),
                "episodes": newest[:12],
                "running": [row for row in self.index.running.values() if row["run"] == path][:SHOWN_RUNNING],
            },
        )

    async def episodes(self, request: web.Request) -> web.Response:
        """Episodes by filters."""
        given = {name: value for name, value in request.query.items() if value or name == "run"}
        paths = await self._ask(query.run_paths)
        if not request.query.get("run") and "run" in given and "" not in paths:
            del given["run"]  # the choice "all"
        page = max(0, (integer_of(given, "page") or 1) - 1)
        filters = query.Filters(given)
        total, found = await self._ask(lambda database: query.episodes(database, filters, page))
        among = [given["run"]] if "run" in given else paths[:MOST_RUNS]
        options = await self._ask(lambda database: _options(database, among))
        kept = {name: value for name, value in given.items() if name != "page"}
        values = {"episodes": found, "total": total, "page": page, "size": query.PAGE, "given": kept}
        orders = list(query.ORDERS)
        return self.pages.answer("episodes", {**values, "options": {**options, "runs": paths}, "orders": orders})

    async def episode(self, request: web.Request) -> web.Response:
        """The trajectory viewer."""
        row = await self._row(request)
        first = integer_of(request.query, "turn") or 0
        values = await asyncio.to_thread(episode_values, self._folder(row), row["path"], first)
        previous, following = await self._ask(lambda database: query.neighbours(database, row))
        members = await self._ask(lambda database: query.members(database, row))
        gold = await self._gold(row["task"]) if request[VISITOR].ground_truth else None
        grading = None
        if self._shows_gradings(request):
            grading = await asyncio.to_thread(grading_values, self._folder(row), row["path"])
        values |= {"gold": gold, "grading": grading, "may_see_grading": self._shows_gradings(request)}
        return self.pages.answer(
            "episode", {"row": row, "before": previous, "after": following, "members": members, **values}
        )

    async def live(self, request: web.Request) -> web.Response:
        """An episode that runs; once it has ended, the page of its artifacts."""
        path = request.query.get("path", "")
        row = self.index.running.get(path)
        if row is None:
            ended = await self._ask(lambda database: query.ended(database, path.removesuffix(SUFFIX)))
            if ended is None:
                raise web.HTTPNotFound(text="this episode does not run, and left no artifacts\n")
            raise web.HTTPFound(address("episode", path=ended))
        trajectory = await asyncio.to_thread(live_trajectory, self.index.root / path)
        first = integer_of(request.query, "turn")
        values = trajectory_values(trajectory, "", path, len(trajectory.turns) if first is None else first)
        return self.pages.answer("live", {"row": row, "now": time.time() * 1e9, **values})

    async def rollouts(self, request: web.Request) -> web.Response:
        """The rollouts of a prompt side by side; `path` is one of them."""
        row = await self._row(request)
        members = await self._ask(lambda database: query.members(database, row))
        found = await asyncio.to_thread(side_by_side, self.index.root, members)
        return self.pages.answer("rollouts", {"row": row, "rollouts": found})

    async def tokens(self, request: web.Request) -> web.Response:
        """Tokens with their log-probs and loss mask."""
        row = await self._row(request)
        sequence, first = integer_of(request.query, "sequence") or 0, integer_of(request.query, "from") or 0
        values = await asyncio.to_thread(token_values, self._folder(row), sequence, first, self.decode)
        if values is None:
            raise web.HTTPNotFound(text="this episode has no such token sequence\n")
        return self.pages.answer("tokens", {"row": row, **values})

    async def text(self, request: web.Request) -> web.Response:
        """One message in full, or the patch where none is named, as plain text."""
        path, place = request.query.get("path", ""), integer_of(request.query, "message")
        if path in self.index.running:
            trajectory = await asyncio.to_thread(live_trajectory, self.index.root / path)
        else:
            folder = self._folder(await self._row(request))
            if place is None:
                return plain(await asyncio.to_thread(patch_of, folder))
            trajectory = await asyncio.to_thread(load, folder)
        content = None if place is None else trajectory.message(place)
        if content is None:
            raise web.HTTPNotFound(text="this episode has no such message\n")
        return plain(content)

    async def grading(self, request: web.Request) -> web.Response:
        """The log of an episode's grading, as plain text."""
        if not self._shows_gradings(request):
            raise web.HTTPForbidden(text="the log of a grading names tests; it needs the right to see ground truth\n")
        found = await asyncio.to_thread(read_grading, self._folder(await self._row(request)))
        if found is None:
            raise web.HTTPNotFound(text="no log of this episode's grading is kept\n")
        return plain(found.log)

    async def compare(self, request: web.Request) -> web.Response:
        """Two runs task by task."""
        one, other = request.query.get("a", ""), request.query.get("b", "")
        found = await self._ask(lambda database: query.by_task(database, [one, other]))
        left, right = ({task: runs[run] for task, runs in found.items() if run in runs} for run in (one, other))
        values = {"a": one, "b": other, "found": compare(left, right), "shown": SHOWN_TASKS}
        return self.pages.answer("compare", values)

    def _shows_gradings(self, request: web.Request) -> bool:
        return self.gradings and request[VISITOR].ground_truth

    async def _gold(self, task: str) -> dict[str, Any] | None:
        """The task's ground truth, where it may be shown."""
        if self.ground_truth is None:
            return None
        try:
            found = await asyncio.to_thread(self.ground_truth.of, task)
        except (TaskError, OSError) as error:
            return {"error": str(error)}
        if found is None:
            return {"error": f"{self.ground_truth.path} has no task {task}"}
        return {
            "error": "",
            "patch": read_diff(found.patch, Budget(), 25_000),
            "test_patch": read_diff(found.test_patch, Budget(), 25_000),
            "fail_to_pass": [name[:300] for name in found.fail_to_pass[:50]],
            "pass_to_pass": len(found.pass_to_pass),
        }

    async def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        def read() -> T:
            with self.index.read() as database:
                return question(database)

        return await asyncio.to_thread(read)

    async def _row(self, request: web.Request) -> sqlite3.Row:
        path = request.query.get("path", "")
        row = await self._ask(lambda database: query.episode(database, path))
        if row is None:
            raise web.HTTPNotFound(text="the index has no such episode\n")
        return row

    def _folder(self, row: sqlite3.Row) -> Path:
        return self.index.root / str(row["path"])


def _options(database: sqlite3.Connection, runs: Sequence[str]) -> dict[str, list[str]]:
    """What the filters offer besides runs."""
    return {name: query.choices(database, runs, name) for name in ("verdict", "exit_status", "purpose")}


def integer_of(values: Mapping[str, str], name: str) -> int | None:
    """A whole number of an address, None where it is none."""
    value = values.get(name, "")
    return integer(int(value)) if value.isascii() and value.isdigit() and len(value) < 16 else None


def _interval(run: sqlite3.Row) -> tuple[float, float, float] | None:
    """The share of resolved episodes with its 95 % interval."""
    valid = run["episodes"] - (run["lost"] or 0)
    if not valid:
        return None
    rate = run["resolved"] / valid
    return rate, *wilson(rate, valid)
