"""The training of one attempt: its starting point, its supervised steps, its policy steps.

Guarantees: sandboxes of the first step are declared as soon as the tasks are known, while engines and ranks still
start; supervised steps come before policy steps and are not repeated after a resume; each phase has its own learning
rate.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from swerl_api import names
from swerl_trainer.algorithm import demonstration_batch
from swerl_trainer.algorithm.schedule import learning_rate
from swerl_trainer.checkpoints import Checkpoint, CheckpointStore
from swerl_trainer.driver.components import AttemptComponents
from swerl_trainer.driver.exporter import WeightExporter
from swerl_trainer.driver.loop import LoopDependencies, TrainingLoop
from swerl_trainer.driver.preflight import check_functions
from swerl_trainer.driver.resources import training_ranks
from swerl_trainer.driver.resume import fetched_starting_point, find_damage_on_nodes
from swerl_trainer.driver.saver import CheckpointSaver
from swerl_trainer.driver.state import TimeEstimate, TrainingState
from swerl_trainer.driver.status import StatusReporter
from swerl_trainer.driver.supervised import demonstrations_of, read_demonstrations
from swerl_trainer.events import event
from swerl_trainer.job import Job
from swerl_trainer.megatron.group import TrainGroup
from swerl_trainer.metrics.driver_metrics import DriverMetrics, gpus_by_role
from swerl_trainer.metrics.open import open_sinks
from swerl_trainer.metrics.sinks import Sinks
from swerl_trainer.metrics.step_metrics import train_metrics
from swerl_trainer.mirror import mirror_of
from swerl_trainer.rollout.actor import policy_tokenizer
from swerl_trainer.rollout.canary import GoldCanary
from swerl_trainer.rollout.complete_groups import read_complete_groups
from swerl_trainer.rollout.cursor import TaskOrder
from swerl_trainer.rollout.dispatcher import Dispatcher
from swerl_trainer.rollout.runner import RolloutRunner

logger = logging.getLogger(__name__)


class Training:
    """One attempt's training, on components that may still be starting."""

    def __init__(self, job: Job, components: AttemptComponents, reporter: StatusReporter) -> None:
        self._job = job
        self._spec = job.spec
        check_functions(job.spec.algorithm)
        self._components = components
        self._reporter = reporter
        self._turn = asyncio.Lock()
        self.runner: asyncio.Future[RolloutRunner] = asyncio.get_running_loop().create_future()  # once tasks are known
        self.serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # once engines serve
        self._store = CheckpointStore(job.checkpoints, keep_last=job.spec.checkpoint.keep_last)
        self._mirror = mirror_of(job, names.CHECKPOINTS_FOLDER)
        self._saver = CheckpointSaver(self._store, self._turn, self._mirror)
        exports = mirror_of(job, names.EXPORTS_FOLDER)
        self._exporter = WeightExporter(job.exports, job.spec.checkpoint.export, self._turn, exports)
        self._begun_from: Checkpoint | None = None
        self._state = TrainingState()
        self.metrics = DriverMetrics(job.name, gpus_by_role(job.spec))
        self._canary: GoldCanary | None = None

    async def run(self) -> None:
        """Train from the checkpoint that the job's spec admits to the end."""
        await self._resume()
        sinks = await asyncio.to_thread(self._open_sinks)
        try:
            await self._reporter.step(step=self._state.step, steps=self._steps)
            if not self._components.generates:
                await self._supervise(await self._group(), sinks)
            elif self._only_supervised:
                await self._run_supervised(sinks)
            else:
                await self._run_policy(sinks)
            await self._exporter.export_if_missing(await self._components.group_ready, self._state.step)
            await self._saver.wait()
            await self._exporter.wait()
            await self._reporter.step(step=self._state.step, steps=self._steps, last_checkpoint=self._saver.newest)
        finally:
            self._saver.cancel()
            self._exporter.cancel()
            if self._canary is not None:
                await self._canary.close()
            if self.runner.done():
                await self.runner.result().close()
            await asyncio.to_thread(sinks.close)

    async def _resume(self) -> None:
        resume = self._spec.checkpoint.resume
        find_damage = partial(find_damage_on_nodes, ranks=training_ranks(self._spec)[0])
        self._begun_from = await fetched_starting_point(self._store, self._mirror, resume, find_damage)
        if self._begun_from is not None:
            self._state = TrainingState.from_json(self._begun_from.state)
            logger.info("resuming from %s", self._begun_from.folder, extra=event("Resumed"))
        self._state.attempt = self._job.attempt
        self._state.resume_step = resume if isinstance(resume, int) else None

    async def _run_policy(self, sinks: Sinks) -> None:
        loop = await self._loop(sinks)
        loop.start()
        group = loop.group = await self._group()
        if self._spec.algorithm.sft is not None:
            await self._supervise(group, sinks)
        await self._attach(loop, group)
        await loop.run()
        await loop.finish()

    async def _run_supervised(self, sinks: Sinks) -> None:
        """Supervised steps, while the engines evaluate the weights from before them."""
        loop = await self._loop(sinks)
        loop.start()
        group = loop.group = await self._group()
        await self._attach(loop, group)
        await self._supervise(group, sinks)
        await loop.update_weights(self._state.step)
        await loop.finish()

    async def _loop(self, sinks: Sinks) -> TrainingLoop:
        """The loop with its dispatcher, as soon as the tasks are known; its ranks and engines come later."""
        components, state = self._components, self._state
        assert components.pool is not None
        counts = await components.tasks_ready
        order = TaskOrder(counts.train, self._spec.tasks.shuffle, self._spec.tasks.seed)
        dispatcher = Dispatcher(
            self._spec.algorithm,
            self._spec.sandbox,
            order,
            taken=state.step,
            position=state.position,
            pending=state.pending,
            unchanged=state.unchanged,
            complete=await asyncio.to_thread(read_complete_groups, self._begun_from.folder) if self._begun_from else (),
        )
        runner = RolloutRunner(dispatcher, components.workers, serving=components.pool.serving, metrics=self.metrics)
        self.runner.set_result(runner)
        every = self._spec.grading.gold_canary_every
        self._canary = GoldCanary(runner.grade_reference_fix, tasks=counts.train, every=every)
        dependencies = LoopDependencies(
            spec=self._spec,
            pool=components.pool,
            runner=runner,
            saver=self._saver,
            exporter=self._exporter,
            sinks=sinks,
            reporter=self._reporter,
            state=state,
            trainer_lock=self._turn,
            held_out_tasks=counts.evaluation,
            canary=self._canary,
            profiles=self._job.folder / "profile",
        )
        return TrainingLoop(dependencies)

    async def _group(self) -> TrainGroup:
        """The training ranks, with the checkpoint's weights if there is one."""
        group = await self._components.group_ready
        if self._begun_from is not None:
            async with self._turn:
                await group.load(self._begun_from.folder)
        return group

    async def _attach(self, loop: TrainingLoop, group: TrainGroup) -> None:
        """Serve the ranks' weights from the engines."""
        assert self._components.pool is not None
        await self._components.engines_ready
        if self._components.judge is not None:
            await self._components.judge_ready
        as_given = self._begun_from is None and not self._state.supervised_step
        await self._components.pool.attach(group, self._state.step, self._turn, as_started=as_given)
        seconds = time.monotonic() - self._components.began
        self._components.seconds["serving"] = seconds
        logger.info("engines serve %.1f s after the driver's start: %s", seconds, self._components.seconds)
        self.serving.set_result(None)

    async def _supervise(self, group: TrainGroup, sinks: Sinks) -> None:
        """The remaining supervised steps; ends with a checkpoint if there were any."""
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
        estimate = TimeEstimate()
        while state.supervised_step < sft.steps:
            began = time.monotonic()
            chosen = demonstrations_of(
                state.supervised_step, samples, batch_size=sft.batch_size, seed=self._spec.algorithm.seed
            )
            lr = learning_rate(sft.lr, sft.lr_schedule, step=state.supervised_step, steps=sft.steps)
            async with self._turn:
                await group.set_learning_rate(lr)
                metrics = await group.train_step(demonstration_batch(chosen))
            state.supervised_step += 1
            if self._only_supervised:
                state.step = state.supervised_step
            await sinks.write("supervised", state.supervised_step, train_metrics(metrics))
            estimate.add(time.monotonic() - began)
            await self._after_supervised_step(group, metrics, estimate, sft.steps)

    async def _after_supervised_step(
        self, group: TrainGroup, metrics: dict[str, float], estimate: TimeEstimate, steps: int
    ) -> None:
        state = self._state
        logger.info("supervised step %d/%d loss %.4f", state.supervised_step, steps, metrics.get("loss", float("nan")))
        last = state.supervised_step == steps
        due = self._only_supervised and state.supervised_step % self._spec.checkpoint.every == 0
        self._saver.check()
        if last or due:
            await self._saver.save(group, state)
        if self._only_supervised:
            await self._exporter.export_if_due(group, state.step, last=last)
            await self._reporter.step(
                step=state.step,
                steps=steps,
                tokens_per_second=metrics.get("tokens_per_second"),
                eta_seconds=estimate.remaining(steps - state.supervised_step),
                last_checkpoint=self._saver.newest,
            )

    def _open_sinks(self) -> Sinks:
        state = self._state
        done = {"step": state.step, "supervised": state.supervised_step, "evaluation": state.step}
        return open_sinks(
            self._job.folder,
            run=self._job.uid,
            attempt=self._job.attempt,
            keep=done if self._begun_from is not None else {},
            config=self._spec.model_dump(mode="json", by_alias=True),
            driver=self.metrics,
        )

    @property
    def _only_supervised(self) -> bool:
        return self._spec.algorithm.name == "sft"

    @property
    def _steps(self) -> int:
        sft = self._spec.algorithm.sft
        return sft.steps if self._only_supervised and sft else self._spec.algorithm.steps
