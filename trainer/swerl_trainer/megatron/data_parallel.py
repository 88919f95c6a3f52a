"""How gradients and weights travel between data-parallel ranks.

Guarantees: where communication overlaps, gradients of all micro-batches are summed before they are sent once, and
`gather_weights` leaves every rank with complete weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swerl_trainer.megatron.device import Device

from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.transformer.transformer_config import TransformerConfig


def data_parallel_config(device: Device, *, updates_per_step: int) -> DistributedDataParallelConfig:
    """Gradients are summed in fp32, during the backward pass where the device can. Weights are gathered during the next
    forward pass only where a step has several updates: after the last one they go to the engines at once.

    `gradients_are_finite` replaces Megatron's check, which raises.
    """
    return DistributedDataParallelConfig(
        grad_reduce_in_fp32=True,
        use_distributed_optimizer=True,
        check_for_nan_in_grad=False,
        overlap_grad_reduce=device.overlaps,
        overlap_param_gather=device.overlaps and updates_per_step > 1,
    )


def wrap(
    config: TransformerConfig, chunks: Sequence[Any], device: Device, *, updates_per_step: int
) -> list[DistributedDataParallel]:
    """`chunks` with the gradient buffers of data parallelism; `config` gets the hooks of Megatron's schedules."""
    parallel = data_parallel_config(device, updates_per_step=updates_per_step)
    # What chunks after the first communicate overlaps with other chunks' computation, in one bucket each.
    wrapped = [DistributedDataParallel(config, parallel, c, disable_bucketing=n > 0) for n, c in enumerate(chunks)]
    config.finalize_model_grads_func = finalize_model_grads
    if device.overlaps:
        hooks = [module.no_sync for module in wrapped]
        config.no_sync_func = hooks if len(hooks) > 1 else hooks[0]
    return wrapped


def gather_weights(modules: Sequence[DistributedDataParallel]) -> None:
    """Complete the weights of the last update on every rank; no-op unless their gathering overlaps."""
    for module in modules:
        if module.ddp_config.overlap_param_gather:
            module.start_param_sync(force_sync=True)


def release(modules: Sequence[DistributedDataParallel]) -> None:
    """Remove the hooks of the gradients, which would keep the model and its process groups for the process's life.

    Autograd's accumulators outlive the parameters that they belong to, and Megatron keeps no handle of its hooks.
    """
    for module in modules:
        for accumulator in module.grad_accs:
            hooks = accumulator.register_hook(_no_hook).hooks_dict_ref()
            if hooks is not None:
                hooks.clear()
        module.grad_accs.clear()


def _no_hook(*_: Any) -> None:
    """A hook without effect: registering it gives access to the others."""
