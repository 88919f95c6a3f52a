"""What an engine's weight checker sums beside whole parameters: each expert of a mixture, and the adapter.

SGLang loads this as a plugin, which it finds in the folder PLUGIN on the server's PYTHONPATH. Guarantees: sums are of
the memory that the engine computes with; where SGLang holds experts or adapters in another way, their sums are missing
and the others are as before.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from swerl_trainer.engines.client import ADAPTER

logger = logging.getLogger(__name__)

PLUGIN = Path(__file__).with_name("plugin")
HOOKED = "sglang.srt.managers.scheduler"  # the module of the processes that hold weights
STACKED = (".experts.w13_weight", ".experts.w2_weight")  # ends of parameters [experts, outputs, inputs]


def register() -> None:
    """Add the hooks, in a process that holds weights."""
    if HOOKED not in sys.modules:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    checker = "sglang.srt.utils.weight_checker.WeightChecker._model_state"
    runner = "sglang.srt.model_executor.model_runner.ModelRunner.check_weights"
    HookRegistry.register(checker, with_experts, HookType.AROUND)
    HookRegistry.register(runner, with_adapter, HookType.AROUND)


def with_experts(original: Callable[..., Iterator[tuple[str, Any]]], checker: Any) -> Iterator[tuple[str, Any]]:
    """The model's tensors by name, each expert `N` of a stacked parameter as `experts.N.<parameter>`."""
    for name, tensor in original(checker):
        module, _, parameter = name.rpartition(".")
        layer = checker._get_model().get_submodule(module) if name.endswith(STACKED) and _is_plain(tensor) else None
        experts = held_experts(layer) if layer else []
        yield from ((f"{module}.{number}.{parameter}", tensor.detach()[place]) for number, place in experts)
        if not experts:
            yield name, tensor


def _is_plain(tensor: Any) -> bool:
    """Whether a stacked parameter has the numbers of its experts, not quantised ones."""
    return bool(tensor.dim() == 3 and tensor.is_floating_point() and tensor.itemsize > 1)


def held_experts(layer: Any) -> list[tuple[int, int]]:
    """The model's experts that a layer of this rank holds, with their places in it; [] for an unknown kind of layer."""
    try:
        from sglang.srt.eplb.expert_location import get_global_expert_location_metadata

        local = layer._map_global_expert_id_to_local_expert_id
        location = get_global_expert_location_metadata() if layer.uses_expert_location else None
        routed = range(layer.num_global_routed_experts)
        numbers = location.physical_to_logical_map_cpu[layer.layer_id].tolist() if location else routed
        return [(number, place) for slot, number in enumerate(numbers) if (place := local(slot)) >= 0]
    except (AttributeError, ImportError, LookupError, TypeError):
        return []


def with_adapter(original: Callable[..., Any], runner: Any, *arguments: Any, **options: Any) -> Any:
    """The answer of the checker, with the adapter's sums where it has sums."""
    answer = original(runner, *arguments, **options)
    if answer and "checksums" in answer and runner.lora_manager is not None:
        try:
            answer["checksums"] |= loaded_sums(runner.lora_manager, options.get("skip_tensor_list") or ())
        except Exception:
            logger.exception("the adapter has no sums, so it is not compared with the trainer's")
    return answer


def loaded_sums(manager: Any, others: Sequence[str]) -> dict[str, str]:
    """The sum of each factor of the adapter on this rank, as `model.layers.N.<module>.lora_A` and `lora_B`, unless the
    name has a part in `others`. The adapter is loaded first, as the next request would load it."""
    from sglang.srt.utils.weight_checker import _hash_tensor

    sums: dict[str, str] = {}
    for uid in [uid for uid, adapter in manager.lora_refs.items() if adapter.lora_name == ADAPTER]:
        manager.fetch_new_loras({uid})
        for name, factor in _factors(manager.memory_pool, uid, manager.configs[uid].r):
            if not any(part in name for part in others):
                sums[name] = _hash_tensor(factor)
    return sums


def _factors(pool: Any, uid: str, rank: int) -> Iterator[tuple[str, Any]]:
    """The factors of adapter `uid` in its slot, which has room for adapters of the pool's largest rank."""
    slot = pool.uid_to_buffer_id[uid]
    for factor, buffers in (("lora_A", pool.A_buffer), ("lora_B", pool.B_buffer)):
        for module, layers in buffers.items():
            for number, layer in enumerate(layers):
                held = layer[slot]
                used = held[: len(held) * rank // pool.max_lora_rank] if factor == "lora_A" else held[..., :rank]
                yield f"model.layers.{number}.{module}.{factor}", used
