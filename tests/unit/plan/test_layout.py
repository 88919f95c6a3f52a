"""Ranks are grouped as Megatron groups them, and parameters divided as it divides them."""

from __future__ import annotations

from swerl_api import TrainerSpec
from swerl_plan import known_shape
from swerl_plan.layout import Layout, division_problems, rank_parameters


def test_groups_follow_megatrons_order() -> None:
    layout = Layout(pods=2, gpus=8, tensor=2, pipeline=2, context=2)
    groups = layout.groups()
    assert groups["tensor"][:2] == [[0, 1], [2, 3]]
    assert groups["context"][:2] == [[0, 2], [1, 3]]
    assert groups["data"][:2] == [[0, 4], [1, 5]]
    assert groups["pipeline"][:2] == [[0, 8], [1, 9]]
    assert layout.crosses_pods("pipeline") and not layout.crosses_pods("data")
    for members in groups.values():
        assert sorted(rank for group in members for rank in group) == list(range(16))


def test_ranks_on_cpu_share_pods_as_ranks_on_gpus_do() -> None:
    spec = TrainerSpec(image="t", replicas=2, cpu_ranks=4, tensor_parallel=2, pipeline_parallel=2)
    on_cpu, on_gpus = Layout.of(spec), Layout(pods=2, gpus=4, tensor=2, pipeline=2)
    assert spec.ranks == on_cpu.ranks == 8
    assert on_cpu.groups() == on_gpus.groups()
    assert on_cpu.crosses_pods("pipeline") and not on_cpu.crosses_pods("tensor")
    assert Layout.of(TrainerSpec(image="t", replicas=2)).ranks == 2


def test_experts_are_divided_over_neighbouring_ranks() -> None:
    layout = Layout(pods=1, gpus=8, tensor=2, expert=4)
    assert layout.groups()["expert"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert (layout.data, layout.expert_shards) == (4, 2)


def test_ranks_of_all_stages_hold_the_whole_model() -> None:
    shape = known_shape("Qwen/Qwen3-8B")
    assert shape is not None
    layout = Layout(pods=1, gpus=8, tensor=2, pipeline=4)
    parameters = sum(rank_parameters(shape, layout, stage).all * layout.tensor for stage in range(4))
    replicated = shape.layers * shape.norms + shape.hidden  # on each tensor-parallel rank
    assert parameters == shape.parameters + replicated


def test_chunks_of_layers_go_to_the_stages_in_turn() -> None:
    shape = known_shape("Qwen/Qwen3-8B")
    assert shape is not None
    layout = Layout(pods=1, gpus=8, pipeline=2, virtual=3)
    assert layout.layers_of(0, 12) == [0, 1, 4, 5, 8, 9]
    assert layout.layers_of(1, 12) == [2, 3, 6, 7, 10, 11]
    plain = Layout(pods=1, gpus=8, pipeline=2)
    assert [rank_parameters(shape, layout, s) for s in (0, 1)] == [rank_parameters(shape, plain, s) for s in (0, 1)]


def test_tied_last_stage_has_a_copy_of_the_embedding() -> None:
    shape = known_shape("Qwen/Qwen3-4B")
    assert shape is not None
    two = Layout(pods=1, gpus=2, pipeline=2)
    parameters = sum(rank_parameters(shape, two, stage).all for stage in range(2))
    assert parameters == shape.parameters + shape.embedding


def test_what_has_a_remainder_is_named() -> None:
    dense, mixture = known_shape("Qwen/Qwen3-8B"), known_shape("Qwen/Qwen3-30B-A3B")
    assert dense is not None and mixture is not None
    assert list(division_problems(dense, Layout(pods=1, gpus=8, tensor=4, pipeline=2))) == []
    text = " ".join(division_problems(dense, Layout(pods=1, gpus=16, tensor=16)))
    assert "key/value heads 8 cannot be divided over tensorParallel 16" in text
    assert any("36 cannot" in each for each in division_problems(dense, Layout(pods=1, gpus=8, pipeline=8)))
    interleaved = Layout(pods=1, gpus=8, pipeline=4, virtual=2)
    assert any("a virtualPipeline that divides 9" in each for each in division_problems(dense, interleaved))
    assert any("this model is dense" in each for each in division_problems(dense, Layout(pods=1, gpus=8, expert=2)))
    for layout, field in ((Layout(1, 4, 8), "gpus"), (Layout(1, 0, 8, cpu_ranks=4), "cpuRanks")):
        assert any(f"make trainer.replicas x {field} a multiple of 8" in e for e in division_problems(dense, layout))
    assert any("128 experts" in each for each in division_problems(mixture, Layout(pods=1, gpus=6, expert=3)))
