"""The training loop: rollouts, a step, new weights, metrics, a checkpoint.

Guarantees:
* The trainer does one thing at a time (`trainer_lock`).
* Weights change only between evaluations and, unless partial rollouts are allowed, between episodes.
* A checkpoint holds exactly the steps whose metrics are written.
* Every step reports the largest difference between the trainer's and the engines' log-probabilities.
* A step that changed no weight sends none; the job's status counts such steps in a row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from swerl_api import SweRLJobSpec
from swerl_kube.logs import log_ids
from swerl_trainer.driver.errors import DriverError
from swerl_trainer.driver.exporter import WeightExporter
from swerl_trainer.driver.policy_step import TrainingRanks, train_policy
from swerl_trainer.driver.resources import shares_gpus
from swerl_trainer.driver.saver import CheckpointSaver
from swerl_trainer.driver.state import TimeEstimate, TrainingState
from swerl_trainer.driver.training_samples import training_samples
from swerl_trainer.engines.pool import EnginePool
from swerl_trainer.metrics.sinks import Sinks
from swerl_trainer.metrics.step_metrics import (
    StepMetrics,
    canary_metrics,
    group_metrics,
    lost_episode_metrics,
    resolved_rate,
    rollout_metrics,
    staleness_metrics,
    train_metrics,
    unused_prefetch_metrics,
)
from swerl_trainer.rollout.canary import GoldCanary
from swerl_trainer.rollout.group import GroupState, StepGroups
from swerl_trainer.rollout.runner import RolloutRunner

logger = logging.getLogger(__name__)


class Reporter(Protocol):
    """Publishes progress; `StatusReporter` writes it to the job's status."""

    async def step(self, **metrics: Any) -> None: ...

    async def held_out(self, *, before: float | None = None, after: float | None = None) -> None: ...

    def traces(self, step: int) -> bool: ...


@dataclass
class LoopDependencies:
    """Everything that the loop uses."""

    spec: SweRLJobSpec
    pool: EnginePool
    runner: RolloutRunner
    saver: CheckpointSaver
    exporter: WeightExporter
    sinks: Sinks
    reporter: Reporter
    state: TrainingState
    trainer_lock: asyncio.Lock
    held_out_tasks: int = 0
    canary: GoldCanary | None = None
    profiles: Path = Path("profile")  # folder of profiler traces


class TrainingLoop:
    """From `state.step` to the last step: `start`, then `run`, then `finish`; `group` must be set before `run`."""

    def __init__(self, dependencies: LoopDependencies) -> None:
        self.group: TrainingRanks | None = None
        self._deps = dependencies
        self._estimate = TimeEstimate()
        self._evaluating: asyncio.Task[None] | None = None
        self._complete_groups: list[GroupState] = []  # complete groups among `state.pending`
        self._saving_seconds = 0.0  # of the previous step's checkpoint and export; they count in this step's time

    def start(self) -> None:
        """Request the first sandboxes; their episodes start when an engine serves."""
        held_out = self._deps.spec.evaluation
        if held_out and held_out.at_start and not self._deps.state.step and "before" not in self._deps.state.held_out:
            self._evaluate("before")
        self._deps.runner.dispatch()

    async def run(self) -> None:
        """Train to the last step, with the evaluations of the job's spec."""
        state = self._deps.state
        while state.step < self._deps.spec.algorithm.steps:
            with log_ids(step=state.step + 1):
                await self._step()
            if self._evaluation_due():
                self._evaluate(str(state.step))

    async def finish(self) -> None:
        """The evaluation after the last step."""
        state, held_out = self._deps.state, self._deps.spec.evaluation
        await self._await_evaluation()
        if held_out and held_out.at_end and "after" not in state.held_out:
            self._evaluate("after")
            await self._await_evaluation()

    async def _step(self) -> None:
        deps, state = self._deps, self._deps.state
        began = time.monotonic()
        deps.saver.check()
        groups = await deps.runner.step()
        rolled = time.monotonic()
        trained_metrics = await self._train(groups)
        trained = time.monotonic()
        state.step += 1
        await self._after_updates(changed=trained_metrics.get("new_updates", 0.0) > 0)
        updated = time.monotonic()
        rollouts = [r for group in (*groups.groups, *groups.filtered) for r in group.rollouts.values()]
        times = {
            "perf/rollout_time": rolled - began,
            "perf/train_time": trained - rolled,
            "perf/update_weights_time": updated - trained,
            "perf/checkpoint_time": self._saving_seconds,
            "perf/step_time": updated - began + self._saving_seconds,
            "perf/wait_time_ratio": (rolled - began) / (updated - began),
        }
        metrics = {
            **rollout_metrics(rollouts),
            **self._group_metrics(groups),
            **train_metrics(trained_metrics),
            **times,
        }
        metrics["perf/tokens_per_gpu_per_sec"] = (
            trained_metrics.get("tokens", 0.0) / times["perf/step_time"] / self._ranks.size
        )
        metrics |= {
            "rollout/engines_replaced": float(deps.pool.replaced),
            "rollout/engines_slow": float(len(deps.pool.slow)),
            "rollout/weight_mismatches": float(deps.pool.check.mismatches),
            "rollout/weights_uncompared": float(deps.pool.check.uncompared),
            "train/stalls": float(self._ranks.stalls),
        }
        metrics |= staleness_metrics(rollouts, state.step - 1, state.unchanged)
        metrics |= unused_prefetch_metrics(await deps.runner.unused_prefetch())
        if deps.canary is not None:
            deps.canary.step(state.step)
            metrics |= canary_metrics(*deps.canary.counts)
        await deps.sinks.write("step", state.step, metrics)
        self._estimate.add(times["perf/step_time"])
        await self._save_if_due()
        await self._report(metrics)

    async def _train(self, groups: StepGroups) -> dict[str, float]:
        deps, algorithm = self._deps, self._deps.spec.algorithm
        rollouts = [rollout for group in groups.groups for rollout in group.rollouts.values()]
        samples = [sample for rollout in rollouts for sample in training_samples(rollout, algorithm)]
        if self._shares_gpu:
            await self._wait_until_updatable()
        async with deps.trainer_lock:
            if self._shares_gpu:
                await deps.pool.sleep()
            if deps.reporter.traces(deps.state.step + 1):
                await self._ranks.trace_next_step(deps.profiles / f"step-{deps.state.step + 1}")
            metrics = await train_policy(self._ranks, samples, algorithm, deps.state.step)
            if self._shares_gpu:
                await self._ranks.release_memory()
        return metrics

    async def update_weights(self, version: int) -> None:
        """Send the ranks' weights to the engines, after the evaluation of the present weights."""
        deps = self._deps
        await self._wait_until_updatable()
        async with deps.trainer_lock:
            await deps.pool.update_weights(version)
        self._start_step(version)

    async def _after_updates(self, *, changed: bool) -> None:
        """Send the weights if they changed, or if engines that share GPUs must load them again to wake up."""
        state = self._deps.state
        if not changed:
            state.unchanged.append(state.step)
            logger.warning("step %d changed no weight (%d in a row)", state.step, state.without_signal)
        if changed or self._shares_gpu:
            await self.update_weights(state.step)
        else:
            self._start_step(state.step)

    def _start_step(self, number: int) -> None:
        """Start the groups that wait for step `number` to end."""
        deps, state = self._deps, self._deps.state
        deps.runner.dispatcher.updated(number, changed=number not in state.unchanged)
        state.position, state.pending = deps.runner.dispatcher.position, deps.runner.dispatcher.pending()
        self._complete_groups = deps.runner.dispatcher.complete_groups()
        deps.runner.dispatch()

    async def _wait_until_updatable(self) -> None:
        """Return when no evaluation and no episode that must not see new weights uses the engines."""
        self._deps.runner.dispatcher.drain()
        await self._await_evaluation()
        await self._deps.runner.wait_until_updatable()

    async def _save_if_due(self) -> None:
        deps, state = self._deps, self._deps.state
        last = state.step == deps.spec.algorithm.steps
        began = time.monotonic()
        if last or state.step % deps.spec.checkpoint.every == 0:
            await deps.saver.save(self._ranks, state, self._complete_groups)
        await deps.exporter.export_if_due(self._ranks, state.step, last=last)
        self._saving_seconds = time.monotonic() - began

    def _evaluation_due(self) -> bool:
        held_out, state = self._deps.spec.evaluation, self._deps.state
        last = state.step == self._deps.spec.algorithm.steps
        return bool(held_out and held_out.every and not last and state.step % held_out.every == 0)

    def _evaluate(self, label: str) -> None:
        """Start an evaluation of the present weights; `_await_evaluation` waits for it."""
        held_out = self._deps.spec.evaluation
        assert held_out is not None
        tasks = range(self._deps.held_out_tasks)
        self._deps.runner.dispatcher.evaluate(label, tasks, held_out.samples, held_out.temperature)
        self._deps.runner.dispatch()
        self._evaluating = asyncio.create_task(
            self._collect_evaluation(label, self._deps.state.step), name=f"evaluation {label}"
        )

    async def _await_evaluation(self) -> None:
        if self._evaluating is not None:
            await self._evaluating
            self._evaluating = None

    async def _collect_evaluation(self, label: str, step: int) -> None:
        began = time.monotonic()
        rollouts = await self._deps.runner.evaluation()
        rate = resolved_rate(rollouts)
        if rate is None:
            logger.error(
                "held-out evaluation %s: infrastructure ended every episode, for example: %s", label, rollouts[0].error
            )
            return
        self._deps.state.held_out[label] = rate
        metrics = {f"eval/{name}": value for name, value in rollout_metrics(rollouts).items()}
        metrics |= {"eval/resolved_rate": rate, "eval/seconds": time.monotonic() - began}
        await self._deps.sinks.write("evaluation", step, metrics)
        logger.info("held-out resolved rate %s: %.3f (%d episodes)", label, rate, len(rollouts))
        if label in ("before", "after"):
            await self._deps.reporter.held_out(**{label: rate})

    def _group_metrics(self, groups: StepGroups) -> StepMetrics:
        return group_metrics(groups) | lost_episode_metrics(groups.episodes, groups.lost)

    async def _report(self, metrics: StepMetrics) -> None:
        state, steps = self._deps.state, self._deps.spec.algorithm.steps
        shown = {
            "reward_mean": metrics.get("rollout/raw_reward"),
            "resolved_rate": metrics.get("rollout/resolved_rate"),
            "tokens_per_second": metrics.get("train/tokens", 0.0) / metrics["perf/step_time"],
            "eta_seconds": self._estimate.remaining(steps - state.step),
            "last_checkpoint": self._deps.saver.newest,
            "steps_without_signal": state.without_signal,
        }
        logger.info(
            "step %d/%d reward %.3f resolved %.3f %.1f s (rollout %.1f train %.1f weights %.1f) log-prob gap %.1e",
            state.step, steps, shown["reward_mean"] or 0.0, shown["resolved_rate"] or 0.0, metrics["perf/step_time"],
            metrics["perf/rollout_time"], metrics["perf/train_time"], metrics["perf/update_weights_time"],
            metrics.get("train/train_rollout_logprob_abs_diff_max", float("nan")),
        )  # fmt: skip
        await self._deps.reporter.step(step=state.step, steps=steps, **shown)

    @property
    def _ranks(self) -> TrainingRanks:
        if self.group is None:
            raise DriverError("the training loop was run before its training ranks were set")
        return self.group

    @property
    def _shares_gpu(self) -> bool:
        return shares_gpus(self._deps.spec)
