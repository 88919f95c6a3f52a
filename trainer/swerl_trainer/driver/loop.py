"""The training loop: rollouts, a step, new weights, a checkpoint, figures; again.

Guarantees: the trainer does one thing at a time (`turn`); weights change only between evaluations and, unless partial
rollouts are allowed, between episodes; a checkpoint holds exactly the steps its figures were written for; every step
reports the largest distance between the trainer's and the engines' log-probabilities.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from swerl_api import SweRLJobSpec
from swerl_api.names import checkpoint_name
from swerl_trainer.algorithm import Batch, TrainingSample, advantage_figures, demonstration_batch, policy_batch
from swerl_trainer.checkpoints import CheckpointStore
from swerl_trainer.driver.errors import DriverError
from swerl_trainer.driver.resources import shares_gpus
from swerl_trainer.driver.state import Pace, TrainingState
from swerl_trainer.driver.training_samples import training_samples
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.metrics.figures import (
    Figures,
    canary_figures,
    group_figures,
    loss_figures,
    resolved_rate,
    rollout_figures,
    staleness_figures,
    train_figures,
    waste_figures,
)
from swerl_trainer.metrics.sinks import Sinks
from swerl_trainer.rollout.canary import GoldCanary
from swerl_trainer.rollout.dispatcher import StepGroups
from swerl_trainer.rollout.runner import Runner
from torch import Tensor

logger = logging.getLogger(__name__)

PROBE_SAMPLES = 4  # sequences compared when a step had nothing to train on
DISTANCE = "logprob_abs_diff_max"


class Reporter(Protocol):
    """Takes what people watch."""

    async def step(self, **figures: Any) -> None: ...

    async def held_out(self, *, before: float | None = None, after: float | None = None) -> None: ...


class Ranks(Protocol):
    """The training ranks; `TrainGroup` is them."""

    @property
    def size(self) -> int: ...

    async def train_step(self, batch: Batch) -> dict[str, float]: ...

    async def log_probs(self, batch: Batch, *, reference: bool = False) -> list[Tensor]: ...

    async def save(self, folder: Path) -> None: ...

    async def release_memory(self) -> None: ...


@dataclass
class Parts:
    """What the loop works with."""

    spec: SweRLJobSpec
    pool: EnginePool
    runner: Runner
    store: CheckpointStore
    sinks: Sinks
    reporter: Reporter
    state: TrainingState
    turn: asyncio.Lock
    held_out_tasks: int = 0
    canary: GoldCanary | None = None


class TrainingLoop:
    """From `state.step` to the last step: `begin`, then `run`, then `finish`; `group` must be set before `run`."""

    def __init__(self, parts: Parts) -> None:
        self.group: Ranks | None = None
        self._p = parts
        self._pace = Pace()
        self._evaluating: asyncio.Task[None] | None = None
        self._saving_seconds = 0.0  # of the checkpoint before the step, which the step's time includes

    @property
    def runner(self) -> Runner:
        """Who runs the episodes."""
        return self._p.runner

    def begin(self) -> None:
        """Ask for the first sandboxes; their episodes start when an engine serves."""
        held_out = self._p.spec.evaluation
        if held_out and held_out.at_start and not self._p.state.step and "before" not in self._p.state.held_out:
            self._evaluate("before")
        self.runner.kick()

    async def run(self) -> None:
        """Train to the last step, with the evaluations that the job asks for."""
        state = self._p.state
        while state.step < self._p.spec.algorithm.steps:
            await self._step()
            if self._evaluation_due():
                self._evaluate(str(state.step))

    async def finish(self) -> None:
        """The evaluation after the last step."""
        state, held_out = self._p.state, self._p.spec.evaluation
        await self._evaluated()
        if held_out and held_out.at_end and "after" not in state.held_out:
            self._evaluate("after")
            await self._evaluated()

    async def _step(self) -> None:
        p, state = self._p, self._p.state
        began = time.monotonic()
        groups = await p.runner.step()
        rolled = time.monotonic()
        metrics = await self._train(groups)
        trained = time.monotonic()
        self._p.state.step += 1
        await self.renew(state.step)
        renewed = time.monotonic()
        rollouts = [r for group in (*groups.groups, *groups.filtered) for r in group.rollouts.values()]
        times = {
            "perf/rollout_time": rolled - began,
            "perf/train_time": trained - rolled,
            "perf/update_weights_time": renewed - trained,
            "perf/checkpoint_time": self._saving_seconds,
            "perf/step_time": renewed - began + self._saving_seconds,
            "perf/wait_time_ratio": (rolled - began) / (renewed - began),
        }
        figures = {**rollout_figures(rollouts), **self._group_figures(groups), **train_figures(metrics), **times}
        figures["perf/tokens_per_gpu_per_sec"] = metrics.get("tokens", 0.0) / times["perf/step_time"] / self._ranks.size
        figures["rollout/engines_replaced"] = float(p.pool.replaced)
        figures |= waste_figures(await p.runner.waste()) | staleness_figures(rollouts, state.step - 1)
        if p.canary is not None:
            p.canary.step(state.step)
            figures |= canary_figures(*p.canary.counts)
        p.sinks.write("step", state.step, figures)
        self._pace.add(times["perf/step_time"])
        await self._report(figures, await self._checkpoint_if_due())

    async def _train(self, groups: StepGroups) -> dict[str, float]:
        p, algorithm = self._p, self._p.spec.algorithm
        rollouts = [rollout for group in groups.groups for rollout in group.rollouts.values()]
        samples = [sample for rollout in rollouts for sample in training_samples(rollout, algorithm)]
        batch = policy_batch(samples, algorithm)
        if self._shares_gpu:
            await self._quiet()
        async with p.turn:
            if self._shares_gpu:
                await p.pool.sleep()
            metrics = {**await self._ranks.train_step(batch), **advantage_figures(batch)}
            if DISTANCE not in metrics:
                metrics |= await self._distance(samples)
            if self._shares_gpu:
                await self._ranks.release_memory()
        return metrics

    async def _distance(self, samples: Sequence[TrainingSample]) -> dict[str, float]:
        """The distance of log-probabilities, measured when the step itself did not."""
        usable = [s for s in samples if s.valid and s.logprobs and s.trainable_tokens][:PROBE_SAMPLES]
        if not usable:
            return {}
        batch: Batch = demonstration_batch(usable)
        values = await self._ranks.log_probs(batch)
        gaps = [
            (value - sequence.rollout_logprobs)[sequence.mask].abs()
            for value, sequence in zip(values, batch.sequences, strict=True)
            if sequence.rollout_logprobs is not None
        ]
        largest, mean = max(float(gap.max()) for gap in gaps), fmean(float(gap.mean()) for gap in gaps)
        return {DISTANCE: largest, "logprob_abs_diff": mean}

    async def renew(self, version: int) -> None:
        """Bring the engines to the ranks' weights, once the evaluation of the present ones is complete."""
        p, state = self._p, self._p.state
        await self._quiet()
        async with p.turn:
            await p.pool.renew(version)
        p.runner.dispatcher.updated(version)
        state.position, state.pending = p.runner.dispatcher.position, p.runner.dispatcher.pending()
        p.runner.kick()

    async def _quiet(self) -> None:
        """Return when no evaluation and no episode that must not see new weights uses the engines."""
        self._p.runner.dispatcher.drain()
        await self._evaluated()
        await self._p.runner.settled()

    async def _checkpoint_if_due(self) -> str | None:
        p, state = self._p, self._p.state
        last = state.step == p.spec.algorithm.steps
        self._saving_seconds = 0.0
        if not last and state.step % p.spec.checkpoint.every:
            return None
        began = time.monotonic()
        folder = await save(self._ranks, p.store, state, p.turn)
        self._saving_seconds = time.monotonic() - began
        return folder

    def _evaluation_due(self) -> bool:
        held_out, state = self._p.spec.evaluation, self._p.state
        last = state.step == self._p.spec.algorithm.steps
        return bool(held_out and held_out.every and not last and state.step % held_out.every == 0)

    def _evaluate(self, label: str) -> None:
        """Begin an evaluation of the present weights; `_evaluated` waits for it."""
        held_out = self._p.spec.evaluation
        assert held_out is not None
        tasks = range(self._p.held_out_tasks)
        self._p.runner.dispatcher.evaluate(label, tasks, held_out.samples, held_out.temperature)
        self._p.runner.kick()
        self._evaluating = asyncio.create_task(self._collect(label, self._p.state.step), name=f"evaluation {label}")

    async def _evaluated(self) -> None:
        if self._evaluating is not None:
            await self._evaluating
            self._evaluating = None

    async def _collect(self, label: str, step: int) -> None:
        began = time.monotonic()
        rollouts = await self._p.runner.evaluation()
        rate = resolved_rate(rollouts)
        if rate is None:
            logger.error("held-out evaluation %s: infrastructure ended every episode: %s", label, rollouts[0].error)
            return
        self._p.state.held_out[label] = rate
        figures = {f"eval/{name}": value for name, value in rollout_figures(rollouts).items()}
        figures |= {"eval/resolved_rate": rate, "eval/seconds": time.monotonic() - began}
        self._p.sinks.write("evaluation", step, figures)
        logger.info("held-out resolved rate %s: %.3f (%d episodes)", label, rate, len(rollouts))
        if label in ("before", "after"):
            await self._p.reporter.held_out(**{label: rate})

    def _group_figures(self, groups: StepGroups) -> Figures:
        complete = [list(group.rollouts.values()) for group in (*groups.groups, *groups.filtered)]
        return group_figures(complete, groups.dropped) | loss_figures(groups.episodes, groups.lost)

    async def _report(self, figures: Figures, saved: str | None) -> None:
        state, steps = self._p.state, self._p.spec.algorithm.steps
        shown = {
            "reward_mean": figures.get("rollout/raw_reward"),
            "resolved_rate": figures.get("rollout/resolved_rate"),
            "tokens_per_second": figures.get("train/tokens", 0.0) / figures["perf/step_time"],
            "eta_seconds": self._pace.left(steps - state.step),
            "last_checkpoint": saved,
        }
        logger.info(
            "step %d/%d reward %.3f resolved %.3f %.1f s (rollout %.1f train %.1f weights %.1f) log-prob distance %.1e",
            state.step, steps, shown["reward_mean"] or 0.0, shown["resolved_rate"] or 0.0, figures["perf/step_time"],
            figures["perf/rollout_time"], figures["perf/train_time"], figures["perf/update_weights_time"],
            figures.get("train/train_rollout_logprob_abs_diff_max", float("nan")),
        )  # fmt: skip
        await self._p.reporter.step(step=state.step, steps=steps, **shown)

    @property
    def _ranks(self) -> Ranks:
        if self.group is None:
            raise DriverError("the loop runs before its training ranks are there")
        return self.group

    @property
    def _shares_gpu(self) -> bool:
        return shares_gpus(self._p.spec)


async def save(group: Ranks, store: CheckpointStore, state: TrainingState, turn: asyncio.Lock) -> str:
    """Write a checkpoint of the present step; its folder."""
    remembered = state.as_json()
    async with turn, store.write(state.step, remembered) as folder:
        await group.save(folder)
    return str(store.root / checkpoint_name(state.step))
