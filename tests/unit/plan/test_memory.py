"""Memory by phase, against sums done by hand, and how it follows the settings of a job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swerl_plan import known_shape
from swerl_plan.layout import Layout, rank_parameters
from swerl_plan.memory import BUCKET_BYTES, GIB, GPU_RESERVE, TrainingSettings, _Stage, rank_memory

SHAPE = known_shape("Qwen/Qwen3-32B")
LAYOUT = Layout(pods=4, gpus=4, tensor=4)  # 4 data-parallel copies
SETTINGS = TrainingSettings(2, 8192, "full", offload=False, colocate=False, reference=False)


def test_what_stays_is_counted_by_hand() -> None:
    assert SHAPE is not None
    parameters = rank_parameters(SHAPE, LAYOUT, 0).all
    step = rank_memory(SHAPE, LAYOUT, SETTINGS)["step"].gpu
    assert (step["weights"], step["gradients"]) == (2 * parameters, 4 * parameters)
    assert step["optimizer"] == pytest.approx(12 * parameters / 4, rel=1e-6)
    assert step["reserve"] == GPU_RESERVE


def test_full_recomputation_keeps_one_row_per_layer_and_one_layer() -> None:
    assert SHAPE is not None
    activations = {
        mode: rank_memory(SHAPE, LAYOUT, replace(SETTINGS, recompute=mode))["step"].gpu["activations"]
        for mode in ("none", "full")
    }
    rows = SHAPE.layers * 2 * 8192 * SHAPE.hidden / 4  # divided by sequence parallelism
    assert rows < activations["full"] < 2 * rows
    assert activations["none"] > 5 * activations["full"]


def test_offloaded_optimizer_moves_to_the_host() -> None:
    assert SHAPE is not None
    on_gpu, on_host = (rank_memory(SHAPE, LAYOUT, replace(SETTINGS, offload=flag))["step"] for flag in (False, True))
    assert on_host.gpu["optimizer"] == 0 and on_host.host["optimizer"] == pytest.approx(1.5 * on_gpu.gpu["optimizer"])


def test_save_copies_what_the_rank_owns() -> None:
    assert SHAPE is not None
    memory = rank_memory(SHAPE, LAYOUT, SETTINGS)
    parameters = rank_parameters(SHAPE, LAYOUT, 0).all
    assert memory["save"].host["written"] == pytest.approx((12 + 2) * parameters / 4, rel=1e-6)
    assert memory["save"].gpu_bytes == memory["step"].gpu_bytes


def test_save_of_experts_copies_what_the_rank_owns_of_each_kind() -> None:
    mixture, layout = known_shape("Qwen/Qwen3-30B-A3B"), Layout(pods=4, gpus=4, expert=4)
    assert mixture is not None
    parameters = rank_parameters(mixture, layout, 0)
    owned = parameters.shared / layout.optimizer_shards + parameters.experts / layout.expert_shards
    written = rank_memory(mixture, layout, SETTINGS)["save"].host["written"]
    assert written == pytest.approx((12 + 2) * owned, rel=1e-6)


def test_update_holds_two_buckets_and_the_parts_of_a_tensor() -> None:
    assert SHAPE is not None
    update = rank_memory(SHAPE, LAYOUT, SETTINGS)["update"].gpu
    embedding = 2 * SHAPE.embedding
    assert embedding > BUCKET_BYTES, "a tensor that is larger than a bucket has one of its own"
    assert update["bucket"] == embedding + BUCKET_BYTES
    assert update["gathered"] == 2 * embedding  # its shards and the whole
    whole = rank_memory(SHAPE, replace(LAYOUT, tensor=1), SETTINGS)["update"].gpu
    assert whole["gathered"] == 2 * 2 * SHAPE.hidden * SHAPE.intermediate  # gate and up, which one tensor holds


def test_middle_stage_sends_no_embedding() -> None:
    assert SHAPE is not None
    middle = _Stage(SHAPE, Layout(pods=4, gpus=4, pipeline=4), SETTINGS, 1).phases()["update"].gpu
    assert middle["bucket"] == 2 * BUCKET_BYTES


def test_small_model_is_one_bucket() -> None:
    assert SHAPE is not None
    small = replace(SHAPE, layers=1, hidden=64, intermediate=96, heads=4, kv_heads=2, head_size=16, vocabulary=320)
    update = rank_memory(small, Layout(pods=1, gpus=1), SETTINGS)["update"].gpu
    assert update["bucket"] == 2 * small.parameters


def test_experts_are_copied_to_their_buffer_after_the_others() -> None:
    mixture, layout = known_shape("Qwen/Qwen3-30B-A3B"), Layout(pods=4, gpus=4, expert=4)
    assert mixture is not None
    parameters = rank_parameters(mixture, layout, 0)
    load = rank_memory(mixture, layout, SETTINGS)["load"].gpu
    assert load["weights"] == 2 * (parameters.all + max(parameters.shared, parameters.experts))


def test_engines_on_the_same_gpu_come_when_gradients_are_gone() -> None:
    assert SHAPE is not None
    memory = rank_memory(SHAPE, LAYOUT, replace(SETTINGS, colocate=True))
    assert "update" not in memory and memory["switch"].gpu["gradients"] == 0
    assert memory["step"].gpu["gradients"] > 0


def test_first_stage_keeps_micro_batches_for_all_stages() -> None:
    assert SHAPE is not None
    one_stage, four_stages = (
        rank_memory(SHAPE, Layout(pods=4, gpus=4, tensor=4, pipeline=stages), replace(SETTINGS, recompute="none"))
        for stages in (1, 4)
    )
    assert four_stages["step"].gpu["activations"] == pytest.approx(one_stage["step"].gpu["activations"], rel=0.05)


def test_interleaved_stages_keep_more_activations() -> None:
    """Megatron's published factor: 1 + (p - 1) / (p v) of the activations of a pipeline without chunks."""
    assert SHAPE is not None
    layouts = [Layout(pods=4, gpus=4, tensor=4, pipeline=4, virtual=chunks) for chunks in (1, 4)]
    plain, interleaved = (
        rank_memory(SHAPE, layout, replace(SETTINGS, recompute="none"))["step"].gpu["activations"] for layout in layouts
    )
    assert interleaved == pytest.approx(plain * (1 + 3 / (4 * 4)), rel=0.02)


def test_adapters_alone_have_gradients_and_optimizer() -> None:
    assert SHAPE is not None
    adapted = replace(SETTINGS, adapter_rank=32, adapter_targets=("q_proj", "o_proj"), reference=True)
    memory = rank_memory(SHAPE, LAYOUT, adapted)
    adapters = 64 * 32 * (2 * 5120 + 2 * 64 * 128 // 4)
    assert memory["step"].gpu["gradients"] == 4 * adapters
    assert memory["step"].gpu["weights"] == 2 * (rank_parameters(SHAPE, LAYOUT, 0).all + adapters)
    assert "reference" not in memory["step"].host  # the frozen weights are the reference
    assert memory["load"].gpu["weights"] < 1.01 * memory["step"].gpu["weights"]


def test_without_gpus_all_memory_is_the_hosts() -> None:
    assert SHAPE is not None
    memory = rank_memory(SHAPE, Layout(pods=2, gpus=0, tensor=2), replace(SETTINGS, bytes_per_weight=4))
    assert all(not phase.gpu for phase in memory.values())
    assert memory["step"].host["optimizer"] == pytest.approx(2 * memory["step"].host["weights"], rel=1e-6)
    assert memory["step"].host_bytes > 200 * GIB
