"""Each degree of asynchrony, measured on real engines and ranks: what becomes of every rollout that starts, which
weights sampled each of its tokens, and how far these are from those that train."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from swerl_trainer.checkpoints import CheckpointStore
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.driver.training import Training
from swerl_trainer.job import Job, Paths
from swerl_trainer.metrics.sinks import rows
from swerl_trainer.rollout.complete_groups import read_complete_groups
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.group import GroupRequest, GroupState, Rollout, StepGroups
from swerl_trainer.rollout.staleness import staleness
from swerl_trainer.rollout.worker import Worker

from tests.trainer.conftest import job_document

from ..local_ray import ray_cluster
from .conftest import LocalSandboxes, Watcher, local_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")

STEPS = 4
TOLERANCE = 1e-4  # of log-probabilities by engines and ranks with the same weights
MISMATCH = ("train/train_rollout_logprob_abs_diff", "train/train_rollout_logprob_abs_diff_max", "train/mismatch_kl")
AGENT = {"stepLimit": 2, "contextTokens": 1024, "maxTokensPerTurn": 100}

STARTED, TRAINED, CARRIED = (f"rollout/groups_{name}" for name in ("started", "trained", "carried_over"))
DROPPED = "rollout/dynamic_filter/drop_"

Member = tuple[str, int, int]  # group, index, retry


def small_job(folder: Path, model: Path, *, attempt: int = 1, rollout: Any = None, **algorithm: Any) -> Job:
    """A job of a few steps in `folder`, with these settings of `spec.algorithm` and `spec.rollout`."""
    sections = {"algorithm": {"steps": STEPS, **algorithm}, "agent": AGENT, "rollout": rollout or {}}
    path = folder / "job.json"
    path.write_text(json.dumps(job_document(evaluation=None, **sections) | {"attempt": attempt}))
    return Job.read(path, Paths(model, folder / "tasks", folder / "held-out", folder / "output"))


class Recorder:
    """A worker that records the members that start, and their results."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.started: list[Member] = []
        self.ended: dict[Member, Rollout] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    async def run_episode(self, request: GroupRequest, members: tuple[int, ...], index: int, retry: int) -> None:
        self.started.append((request.id, index, retry))
        await self._worker.run_episode(request, members, index, retry)

    async def rollout(self, request: GroupRequest, index: int, retry: int) -> Rollout:
        result = await self._worker.rollout(request, index, retry)
        self.ended[request.id, index, retry] = result
        return result

    @property
    def groups(self) -> set[str]:
        """Groups that were started."""
        return {group for group, _, _ in self.started}


@dataclass
class History:
    """One attempt: its worker, the steps that its dispatcher handed out, and the figures of each."""

    job: Job
    worker: Recorder
    steps: dict[int, StepGroups] = field(default_factory=dict)  # by number

    @property
    def figures(self) -> list[dict[str, Any]]:
        found = [row for row in rows(self.job.folder / "metrics.jsonl") if row["kind"] == "step"]
        return [row for row in found if row["attempt"] == self.job.attempt]

    @property
    def unchanged(self) -> set[int]:
        """Steps that changed no weight."""
        found = rows(self.job.folder / "metrics.jsonl")
        return {row["step"] for row in found if row["kind"] == "step" and not row.get("train/new_updates")}

    def trained(self) -> Iterator[tuple[int, GroupState]]:
        """Every group that was trained, with the number of its step."""
        return ((number, group) for number, step in self.steps.items() for group in step.groups)

    def record(self, dispatcher: Dispatcher) -> None:
        """Keep what the dispatcher hands out from now on."""
        take = dispatcher.take

        def recorded() -> StepGroups | None:
            step = take()
            if step is not None:
                self.steps[dispatcher.taken] = step
            return step

        dispatcher.take = recorded  # type: ignore[method-assign]


@dataclass
class Shared:
    """One engine and one rank for all tests of this module."""

    model: Path
    components: AttemptComponents
    http: aiohttp.ClientSession

    async def train(self, job: Job, *, until: Callable[[Watcher], bool] | None = None) -> History:
        """Run an attempt to its end, or cancel it once `until` holds."""
        pool = self.components.pool
        assert pool is not None
        if pool._link is not None:  # as in a job of its own
            await pool._link.close()
        pool._link, pool._keep_cache = None, job.spec.rollout.keep_cache
        pool._serving.clear()
        sandboxes, watcher = LocalSandboxes(), Watcher()
        worker = Recorder(local_worker(job, pool.router.url, sandboxes, self.http))
        self.components.workers = [worker]  # type: ignore[list-item]
        training, history = Training(job, self.components, watcher), History(job, worker)  # type: ignore[arg-type]
        running = asyncio.create_task(training.run())
        try:
            begun: list[asyncio.Future[Any]] = [running, training.runner]
            await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
            history.record((await training.runner).dispatcher)
            while not running.done() and not (until and until(watcher)):  # noqa: ASYNC110 - the training goes on
                await asyncio.sleep(0.01)
            if until is None:
                await running
        finally:
            running.cancel()
            await asyncio.wait([running])
            await worker.close()
        assert not sandboxes.alive
        return history


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(make_model: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    model, output = make_model(0), tmp_path_factory.mktemp("shared")
    job = small_job(output, model, maxStaleness=1)
    with ray_cluster():
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            components = AttemptComponents(
                job, http, time.monotonic(), make_worker=lambda url, *_: local_worker(job, url, LocalSandboxes(), http)
            )
            components.start()
            try:
                yield Shared(model, components, http)
            finally:
                await components.close()


def check_account(history: History, *, carried: int = 0) -> Counter[str]:
    """Every group that started, or was `carried` into the attempt, is trained, dropped or carried over; the groups
    dropped by reason."""
    dropped: Counter[str] = Counter()
    assert [row["step"] for row in history.figures] == list(history.steps)
    before = carried
    for row, step in zip(history.figures, history.steps.values(), strict=True):
        reasons = {name.removeprefix(DROPPED): count for name, count in row.items() if name.startswith(DROPPED)}
        assert reasons == step.dropped
        assert before + row[STARTED] == row[TRAINED] + sum(reasons.values()) + row[CARRIED]
        before = row[CARRIED]
        dropped.update(step.dropped)
    trained = [group for _, group in history.trained()]
    assert len({group.request.id for group in trained}) == len(trained), "no group is trained twice"
    assert carried + len(history.worker.groups) == len(trained) + dropped.total() + before
    assert sum(row[STARTED] for row in history.figures) == len(history.worker.groups)
    check_members(history)
    return dropped


def check_members(history: History) -> None:
    """What was trained are the results of the members that were started; all others are of dropped groups."""
    newest = {(group, index): retry for group, index, retry in sorted(history.worker.started)}
    for group in (group for _, group in history.trained() if group.request.id in history.worker.groups):
        assert not group.running
        for index, rollout in group.rollouts.items():
            member = (group.request.id, index, newest[group.request.id, index])
            assert history.worker.ended[member] == rollout
    trained = {group.request.id for _, group in history.trained()}
    unfinished = {member for member in history.worker.started if member not in history.worker.ended}
    assert not {group for group, _, _ in unfinished} & trained


def versions(rollout: Rollout) -> list[int]:
    """The version of the weights that sampled each token that is trained, in order."""
    found: list[int] = []
    for segment in rollout.segments:
        spans = segment.weight_versions
        of_token = {position: int(version) for version, start, end in spans for position in range(start, end)}
        found += [of_token[position] for position, sampled in enumerate(segment.loss_mask) if sampled]
    return found


def check_weights(history: History, bound: int) -> tuple[list[int], int]:
    """No token is sampled by weights that are too old, or older than those of the token before; the ages of the trained
    rollouts, and how many of them more than one version sampled."""
    ages, mixed = [], 0
    figures = {row["step"]: row for row in history.figures}
    for number, step in history.steps.items():
        of_step = []
        for rollout in (rollout for group in step.groups for rollout in group.valid):
            used = versions(rollout)
            assert used and used == sorted(used) and used[-1] < number
            of_step.append(staleness(used[0], number - 1, history.unchanged))
            mixed += len(set(used)) > 1
        assert max(of_step) <= bound
        assert max(of_step) == figures[number]["rollout/weight_staleness/max"]
        ages += of_step
    return ages, mixed


def check_mismatch(history: History) -> list[float]:
    """Every step has figures of the distance to the engines' probabilities; the largest of each."""
    for row in history.figures:
        assert MISMATCH[1] in row
        assert all(name in row for name in MISMATCH) or not row["train/new_updates"]
        assert all(math.isfinite(row[name]) for name in MISMATCH if name in row)
    return [row[MISMATCH[1]] for row in history.figures]


async def test_synchronous_steps_train_what_their_own_weights_sampled(shared: Shared, tmp_path: Path) -> None:
    history = await shared.train(small_job(tmp_path, shared.model))
    assert check_account(history) == {}
    ages, mixed = check_weights(history, 0)
    assert (set(ages), mixed) == ({0}, 0)
    assert all(row[CARRIED] == 0 for row in history.figures)
    assert max(check_mismatch(history)) <= TOLERANCE


async def test_one_step_ahead_trains_each_group_one_change_later_at_most(shared: Shared, tmp_path: Path) -> None:
    history = await shared.train(small_job(tmp_path, shared.model, maxStaleness=1))
    assert check_account(history).keys() <= {"not_needed"}
    ages, mixed = check_weights(history, 1)
    assert (max(ages), mixed) == (1, 0), "weights wait for episodes"
    assert any(row[CARRIED] for row in history.figures)
    assert max(check_mismatch(history)) > TOLERANCE, "measured against the probabilities of the weights that sampled"


async def test_fully_asynchronous_rollouts_stay_within_the_bound(shared: Shared, tmp_path: Path) -> None:
    fields = {"maxStaleness": 2, "partialRollouts": True, "oversampling": 2.0}
    history = await shared.train(small_job(tmp_path, shared.model, **fields))
    assert check_account(history).keys() <= {"stale", "not_needed"}
    ages, mixed = check_weights(history, 2)
    assert max(ages) >= 1 and mixed
    assert max(check_mismatch(history)) > TOLERANCE


@pytest.mark.parametrize("keep_cache", [False, True], ids=["partial rollouts", "in-flight updates"])
async def test_episodes_go_on_with_new_weights(shared: Shared, tmp_path: Path, keep_cache: bool) -> None:
    fields = {"maxStaleness": 1, "partialRollouts": True}
    history = await shared.train(small_job(tmp_path, shared.model, rollout={"keepCache": keep_cache}, **fields))
    assert check_account(history).keys() <= {"stale", "not_needed"}
    ages, mixed = check_weights(history, 1)
    assert max(ages) == 1 and mixed
    check_mismatch(history)


async def test_next_attempt_trains_what_was_carried_over(shared: Shared, tmp_path: Path) -> None:
    def job(attempt: int) -> Job:
        return small_job(tmp_path, shared.model, attempt=attempt, maxStaleness=3)

    first = await shared.train(job(1), until=lambda watcher: bool(watcher.steps) and watcher.steps[-1]["step"] >= 2)
    saved = CheckpointStore(job(1).checkpoints).complete()[-1]
    done = {group.request.id for number, group in first.trained() if number <= saved.step}
    kept = {group.request.id for group in read_complete_groups(saved.folder)}
    pending = {f"g{position}" for position in saved.state["pending"]}
    assert kept <= pending and not done & pending

    second = await shared.train(job(2))
    assert list(second.steps) == list(range(saved.step + 1, STEPS + 1))
    check_account(second, carried=len(kept))
    check_weights(second, 3)
    trained = {group.request.id for _, group in second.trained()}
    assert not trained & done and not second.worker.groups & kept, "nothing is run or trained twice"
    assert kept <= trained and (pending - kept) <= second.worker.groups
