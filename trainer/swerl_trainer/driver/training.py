"""The training of one attempt: where it starts from, its supervised steps, its policy steps.

Guarantees: sandboxes of the first step are asked for as soon as the tasks are known, while engines and ranks still
start; supervised steps come before policy steps and are not repeated after a resume; each phase has its own learning
rate.
"""

from __future__ import annotations

import asyncio
import logging
import time

from swerl_trainer.algorithm import demonstration_batch
from swerl_trainer.checkpoints import CheckpointStore
from swerl_trainer.driver.loop import Parts, TrainingLoop, save
from swerl_trainer.driver.place import Placement
from swerl_trainer.driver.state import Pace, TrainingState
from swerl_trainer.driver.status import StatusReporter
from swerl_trainer.driver.supervised import demonstrations_of, read_demonstrations
from swerl_trainer.job import Job
from swerl_trainer.megatron.group import TrainGroup
from swerl_trainer.metrics.figures import train_figures
from swerl_trainer.metrics.open import open_sinks
from swerl_trainer.metrics.sinks import Sinks
from swerl_trainer.rollout.actor import policy_tokenizer
from swerl_trainer.rollout.canary import GoldCanary
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.runner import Runner

logger = logging.getLogger(__name__)


class Training:
    """One attempt's training, over parts that are still starting."""

    def __init__(self, job: Job, placement: Placement, reporter: StatusReporter) -> None:
        self._job = job
        self._spec = job.spec
        self._placement = placement
        self._reporter = reporter
        self._turn = asyncio.Lock()
        self.runner: asyncio.Future[Runner] = asyncio.get_running_loop().create_future()  # once tasks are known
        self.serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # once engines serve
        self._store = CheckpointStore(job.checkpoints, keep_last=job.spec.checkpoint.keep_last)
        self._newest = self._store.newest() if self._spec.checkpoint.resume == "auto" else None
        self._state = TrainingState()
        if self._newest is not None:
            self._state = TrainingState.from_json(self._newest.state)
            logger.info("going on from %s", self._newest.folder)
        self._state.attempt = job.attempt
        self._canary: GoldCanary | None = None

    async def run(self) -> None:
        """Train from the newest checkpoint to the end."""
        sinks = await asyncio.to_thread(self._open_sinks)
        try:
            await self._reporter.step(step=self._state.step, steps=self._steps)
            if not self._placement.generates:
                await self._supervise(await self._group(), sinks)
            elif self._only_supervised:
                await self._run_supervised(sinks)
            else:
                await self._run_policy(sinks)
        finally:
            if self._canary is not None:
                await self._canary.close()
            if self.runner.done():
                await self.runner.result().close()
            await asyncio.to_thread(sinks.close)

    async def _run_policy(self, sinks: Sinks) -> None:
        loop = await self._loop(sinks)
        loop.begin()
        group = loop.group = await self._group()
        if self._spec.algorithm.sft is not None:
            await self._supervise(group, sinks)
            await group.set_learning_rate(self._spec.algorithm.lr)
        await self._attach(loop, group)
        await loop.run()
        await loop.finish()

    async def _run_supervised(self, sinks: Sinks) -> None:
        """Supervised steps while the engines evaluate the weights before them."""
        loop = await self._loop(sinks)
        loop.begin()
        group = loop.group = await self._group()
        await self._attach(loop, group)
        await self._supervise(group, sinks)
        await loop.renew(self._state.step)
        await loop.finish()

    async def _loop(self, sinks: Sinks) -> TrainingLoop:
        """The loop with its dispatcher, as soon as the tasks are known; its ranks and engines come later."""
        placement, state = self._placement, self._state
        assert placement.pool is not None
        counts = await placement.tasks_ready
        order = TaskOrder(counts.train, self._spec.tasks.shuffle, self._spec.tasks.seed)
        dispatcher = Dispatcher(
            self._spec.algorithm,
            self._spec.sandbox,
            order,
            taken=state.step,
            position=state.position,
            pending=state.pending,
        )
        runner = Runner(dispatcher, placement.workers, serving=placement.pool.serving)
        self.runner.set_result(runner)
        every = self._spec.grading.gold_canary_every
        self._canary = GoldCanary(runner.grade_fix, tasks=counts.train, every=every)
        parts = Parts(
            spec=self._spec,
            pool=placement.pool,
            runner=runner,
            store=self._store,
            sinks=sinks,
            reporter=self._reporter,
            state=state,
            turn=self._turn,
            held_out_tasks=counts.evaluation,
            canary=self._canary,
        )
        return TrainingLoop(parts)

    async def _group(self) -> TrainGroup:
        """The training ranks, with the checkpoint's weights if there is one."""
        group = await self._placement.group_ready
        if self._newest is not None:
            async with self._turn:
                await group.load(self._newest.folder)
        return group

    async def _attach(self, loop: TrainingLoop, group: TrainGroup) -> None:
        """Let the engines serve the ranks' weights."""
        assert self._placement.pool is not None
        await self._placement.engines_ready
        if self._placement.judge is not None:
            await self._placement.judge_ready
        await self._placement.pool.attach(group, self._state.step, self._turn)
        seconds = time.monotonic() - self._placement.began
        self._placement.seconds["serving"] = seconds
        logger.info("first rollouts %.1f s after the driver's start: %s", seconds, self._placement.seconds)
        self.serving.set_result(None)

    async def _supervise(self, group: TrainGroup, sinks: Sinks) -> None:
        """The supervised steps that are left; ends with a checkpoint when there were any."""
        sft, state = self._spec.algorithm.sft, self._state
        assert sft is not None
        if state.supervised_step >= sft.steps:
            return
        tokenizer = await asyncio.to_thread(policy_tokenizer, self._job)
        samples = await asyncio.to_thread(
            read_demonstrations,
            self._job.paths.tasks / sft.data,
            tokenizer,
            context_tokens=self._spec.agent.context_tokens,
        )
        await group.set_learning_rate(sft.lr)
        pace = Pace()
        while state.supervised_step < sft.steps:
            began = time.monotonic()
            chosen = demonstrations_of(
                state.supervised_step, samples, batch_size=sft.batch_size, seed=self._spec.algorithm.seed
            )
            async with self._turn:
                metrics = await group.train_step(demonstration_batch(chosen))
            state.supervised_step += 1
            if self._only_supervised:
                state.step = state.supervised_step
            sinks.write("supervised", state.supervised_step, train_figures(metrics))
            pace.add(time.monotonic() - began)
            await self._after_supervised_step(group, metrics, pace, sft.steps)

    async def _after_supervised_step(
        self, group: TrainGroup, metrics: dict[str, float], pace: Pace, steps: int
    ) -> None:
        state = self._state
        logger.info("supervised step %d/%d loss %.4f", state.supervised_step, steps, metrics.get("loss", float("nan")))
        last = state.supervised_step == steps
        due = self._only_supervised and state.supervised_step % self._spec.checkpoint.every == 0
        folder = await save(group, self._store, state, self._turn) if last or due else None
        if self._only_supervised:
            await self._reporter.step(
                step=state.step,
                steps=steps,
                tokens_per_second=metrics.get("tokens_per_second"),
                eta_seconds=pace.left(steps - state.supervised_step),
                last_checkpoint=folder,
            )

    def _open_sinks(self) -> Sinks:
        state = self._state
        done = {"step": state.step, "supervised": state.supervised_step, "evaluation": state.step}
        return open_sinks(
            self._job.folder,
            job=self._job.name,
            run=self._job.uid,
            attempt=self._job.attempt,
            keep=done if self._newest is not None else {},
            config=self._spec.model_dump(mode="json", by_alias=True),
        )

    @property
    def _only_supervised(self) -> bool:
        return self._spec.algorithm.name == "sft"

    @property
    def _steps(self) -> int:
        sft = self._spec.algorithm.sft
        return sft.steps if self._only_supervised and sft else self._spec.algorithm.steps
