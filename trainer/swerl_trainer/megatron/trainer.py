"""One rank of the training group.

Guarantees: every public method is a collective of all ranks; a step's loss and gradients do not depend on how the batch
is packed or spread over ranks; an update whose gradients are not finite is skipped: weights and optimizer stay.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swerl_api import AlgorithmSpec
from swerl_api.addresses import url_host
from swerl_plan.shape import read_shape
from swerl_trainer.algorithm.batch import Batch, corrected, minibatches
from swerl_trainer.algorithm.correction import correction_of, needs_whole_batch
from swerl_trainer.algorithm.loss import supervised
from swerl_trainer.algorithm.packing import MicroBatch, pack, schedule, unpack
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.background_save import complete_together
from swerl_trainer.megatron.config import RankConfig, data_parallel_size, initial_lr
from swerl_trainer.megatron.data_parallel import gather_weights, release, wrap
from swerl_trainer.megatron.device import Device
from swerl_trainer.megatron.errors import TrainerError
from swerl_trainer.megatron.gradients import gradients_are_finite
from swerl_trainer.megatron.hf_folder import open_folder
from swerl_trainer.megatron.logprobs import forward
from swerl_trainer.megatron.lora import Adapters, check_targets
from swerl_trainer.megatron.metrics import last_stage_metrics, over_minibatches, step_counts, utilisation
from swerl_trainer.megatron.model import build_model, load_weights
from swerl_trainer.megatron.model_config import transformer_config
from swerl_trainer.megatron.optimizer import build_optimizer
from swerl_trainer.megatron.outputs import keep_output, report_loss
from swerl_trainer.megatron.phases import Phases
from swerl_trainer.megatron.process_group import join_process_group, of_all_ranks
from swerl_trainer.megatron.profiling import traced
from swerl_trainer.megatron.reference import ReferenceWeights
from swerl_trainer.megatron.save_hf import save_adapter, save_model
from swerl_trainer.megatron.state import begin_save, load_state
from swerl_trainer.megatron.weight_sender import WeightSender
from torch import Tensor

from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.module import Float16Module

logger = logging.getLogger(__name__)

MAX_SKIPPED = 5  # updates without finite gradients in a row; the next one ends the attempt


class MegatronTrainer:
    """One rank; joins the process group at `tcp://address:port` when it is made and loads the model's weights.

    `device`: by default that of this process.
    """

    def __init__(
        self,
        config: RankConfig,
        *,
        rank: int,
        world_size: int,
        address: str,
        port: int,
        device: Device | None = None,
    ) -> None:
        self.config = config
        algorithm = config.algorithm
        self.algorithm = supervised(algorithm) if algorithm.name == "sft" else algorithm
        self.device = device or Device.detect()
        self.architecture = read_architecture(Path(config.model))
        self.architecture.check(config.trainer)
        self.shape = read_shape(Path(config.model))
        if config.lora is not None:
            check_targets(self.architecture, config.lora)
        self.phases = Phases(self.device)
        self.lr = initial_lr(algorithm)
        self.updates = 0
        data_parallel_size(config.trainer, world_size)
        with self.device.active():
            join_process_group(config, self.device, rank, world_size, f"tcp://{url_host(address)}:{port}")
            with self.phases.during("load"):
                self._build()
        self.sender = WeightSender(self.model, self.architecture, self.device, self.phases, self.adapters)
        self._reference = (self.adapters or ReferenceWeights(self.model)) if self.algorithm.kl_coef else None
        self._skipped_in_a_row = 0
        self._trace_folder: str | None = None
        self._released = False

    def trace_next_step(self, folder: str) -> None:
        """Write a profiler trace of the next `train_step` to `folder`, one file per rank."""
        self._trace_folder = folder

    def train_step(self, batch: Batch) -> dict[str, float]:
        """One pass over `batch`; metrics named in METRICS. An empty batch changes nothing."""
        began = time.monotonic()
        before = self.updates
        folder, self._trace_folder = self._trace_folder, None
        with traced(folder, dist.get_rank(), self.device):
            steps = self._optimiser_steps(batch)
            metrics = [self._update(part) for part in steps]
            with self.device.active():
                gather_weights(self.modules)
        seconds = time.monotonic() - began
        parts = self.phases.take()
        passes = 3 if self.adapters is None else 2  # frozen weights have no gradients
        flops = passes * self.shape.forward_flops(len(sequence) for part in steps for sequence in part.sequences)
        speed = utilisation(flops, parts, self.device.peak_flops)
        updates = {"updates": float(self.updates), "new_updates": float(self.updates - before)}
        return over_minibatches(metrics) | parts | speed | step_counts(batch, steps, seconds) | updates

    def log_probs(self, batch: Batch, *, reference: bool = False) -> list[Tensor]:
        """float32 log-probability per token, token-aligned, 0 outside the mask; the same list on every rank."""
        micro_batches = self._micro_batches(batch)
        timed, weights = self.phases.during("logprob"), self._weights(reference=reference)
        with timed, self.device.active(), torch.no_grad(), weights:
            outputs = self._schedule(micro_batches, self.algorithm, keep_output, forward_only=True)
        by_position: dict[int, Tensor] = {}
        for micro_batch, output in zip(micro_batches, outputs, strict=bool(outputs)):
            by_position |= unpack(output[0].float().cpu(), micro_batch, batch)
        merged = {position: values for part in of_all_ranks(by_position) for position, values in part.items()}
        return [merged[position] for position in range(len(batch))]

    def begin_save(self, folder: str) -> None:
        """Copy weights, optimizer and RNG, and start writing them to `folder`; a step may follow at once."""
        with self.phases.during("save"), self.device.active():
            model, optimizer = self.model, self.optimizer
            self.saving = begin_save(Path(folder), model, optimizer, self.updates, self.adapters)

    def save(self, folder: str) -> None:
        """`begin_save`, and wait until the checkpoint is complete."""
        self.begin_save(folder)
        complete_together(self.saving)

    def load(self, folder: str) -> None:
        """Continue where `save` wrote `folder`."""
        with self.phases.during("load"), self.device.active():
            self.updates = load_state(Path(folder), self.model, self.optimizer, self.adapters)

    def save_hf(self, folder: str) -> None:
        """Write the weights, adapters merged, in Hugging Face format."""
        with self.device.active():
            save_model(Path(folder), Path(self.config.model), self.model, self.architecture, self.adapters)

    def save_adapter(self, folder: str) -> None:
        """Write the adapters in the format of PEFT."""
        assert self.adapters is not None
        with self.device.active():
            save_adapter(Path(folder), Path(self.config.model), self.model, self.architecture, self.adapters)

    def close(self) -> None:
        """Leave the process group and free its threads; the trainer cannot be used afterwards."""
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()
        release(self.modules)

    def set_learning_rate(self, lr: float) -> None:
        """Learning rate from the next step on."""
        self.lr = lr

    def release_memory(self) -> None:
        """Free gradients and cached memory on a GPU until the next step; weights and optimizer stay."""
        with self.phases.during("switch"):
            self._released = True
            for module in self.modules if self.device.cuda else ():
                module.offload_grad_buffers()

    def _build(self) -> None:
        config = transformer_config(self.architecture, self.config, self.device)
        self.model = build_model(self.architecture, config, self.device)
        chunks = [Float16Module(config, chunk) if config.bf16 else chunk for chunk in self.model]
        with open_folder(Path(self.config.model)) as reader:
            load_weights(self.model, reader, self.architecture)
        lora, seed = self.config.lora, self.algorithm.seed
        self.adapters = Adapters(self.model, self.architecture, lora, seed) if lora else None
        self.modules = wrap(config, chunks, self.device, updates_per_step=self.algorithm.minibatches)
        self.optimizer = build_optimizer(self.modules, self.config, self.device)
        config.grad_scale_func = self.optimizer.scale_loss
        self.megatron_config = config

    def _optimiser_steps(self, batch: Batch) -> list[Batch]:
        """The batches of the optimiser steps of `batch`; demonstrations are one step."""
        if not len(batch) or batch.demonstrations:
            return [batch] if len(batch) else []
        algorithm = self.algorithm
        if self._reference is not None and algorithm.kl_in == "loss":
            batch = batch.with_reference_logprobs(self.log_probs(batch, reference=True))
        whole = needs_whole_batch(correction_of(algorithm))
        if algorithm.old_logprobs == "rollout":
            batch = batch.with_rollout_as_old()
        elif algorithm.minibatches > 1 or whole:
            batch = batch.with_old_logprobs(self.log_probs(batch))
        if whole:
            batch = corrected(batch, algorithm)
        return minibatches(batch, algorithm) if len(batch) else []

    def _update(self, batch: Batch) -> dict[str, float]:
        micro_batches = self._micro_batches(batch)
        # Megatron averages over micro-batches and data-parallel ranks; the batch's weights already sum to 1.
        scale = len(micro_batches) * parallel_state.get_data_parallel_world_size()
        algorithm = supervised(self.algorithm) if batch.demonstrations else self.algorithm
        with self.device.active():
            if self._released:
                self._reclaim_memory()
            for module in self.modules:
                module.zero_grad_buffer()
            self.optimizer.zero_grad()
            finish = partial(report_loss, algorithm=algorithm, scale=scale)
            with self.phases.during("forward_backward"):
                reports = self._schedule(micro_batches, algorithm, finish, forward_only=False)
            counts = {"lr": self.lr, "micro_batches": float(len(micro_batches))}
            if not gradients_are_finite(self.modules):
                return counts | self._skip()
            for group in self.optimizer.param_groups:
                group["lr"] = self.lr
            with self.phases.during("optimizer"):
                _, grad_norm, _ = self.optimizer.step()
            metrics = last_stage_metrics(reports, self.device.torch)
        self.updates += 1
        self._skipped_in_a_row = 0
        return metrics | counts | {"grad_norm": float(grad_norm or 0.0), "skipped_updates": 0.0}

    def _reclaim_memory(self) -> None:
        with self.phases.during("switch"):
            self._released = False
            for module in self.modules if self.device.cuda else ():
                module.restore_grad_buffers()

    def _skip(self) -> dict[str, float]:
        """Leave weights and optimizer as they are. Raises TrainerError after MAX_SKIPPED in a row."""
        self._skipped_in_a_row += 1
        logger.warning("gradients of update %d are not finite: update skipped", self.updates + 1)
        if self._skipped_in_a_row > MAX_SKIPPED:
            raise TrainerError(
                f"gradients were not finite in {self._skipped_in_a_row} updates in a row: lower algorithm.lr or "
                "algorithm.maxGradNorm, and look at train/logprob of the last steps"
            )
        return {"skipped_updates": 1.0}

    @contextlib.contextmanager
    def _weights(self, *, reference: bool) -> Iterator[None]:
        """Context in which the model has the reference's weights, if `reference` is set."""
        if not reference:
            yield
        elif self._reference is None:
            raise TrainerError("there is no reference model: set algorithm.klCoef above 0")
        else:
            with self._reference.in_place():
                yield

    def _micro_batches(self, batch: Batch) -> list[MicroBatch]:
        """This rank's micro-batches of `batch`."""
        trainer = self.config.trainer
        plan = schedule(
            [len(sequence) for sequence in batch.sequences],
            budget=trainer.max_tokens_per_gpu * trainer.context_parallel,
            ranks=parallel_state.get_data_parallel_world_size(),
            attention=self.shape.attention_cost,
            multiple=trainer.pipeline_parallel if trainer.virtual_pipeline > 1 else 1,
        )
        multiple = 2 * trainer.context_parallel if trainer.context_parallel > 1 else 1
        if self.megatron_config.sequence_parallel:
            multiple *= trainer.tensor_parallel
        micro_batches = plan[parallel_state.get_data_parallel_rank()]
        return [pack(batch, members, multiple=multiple) for members in micro_batches]

    def _schedule(
        self, micro_batches: Sequence[MicroBatch], algorithm: AlgorithmSpec, finish: Any, *, forward_only: bool
    ) -> list[Any]:
        """Run Megatron's pipeline schedule; the reports of `finish(output, micro_batch)`, on the last stage."""

        def step(iterator: Iterator[MicroBatch], model: Any) -> tuple[Tensor, Any]:
            micro_batch = next(iterator)
            output = forward(model, micro_batch, algorithm, self.device.torch, self.architecture.vocabulary)
            return output, partial(finish, micro_batch=micro_batch)

        for module in self.modules:
            module.train(not forward_only)
        results: list[Any] = get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=[iter(micro_batches) for _ in self.modules],
            model=self.modules,
            num_microbatches=len(micro_batches),
            seq_length=max(len(m.tokens) for m in micro_batches),
            micro_batch_size=1,
            forward_only=forward_only,
        )
        return results
