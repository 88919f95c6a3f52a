"""What a sample of an engine's weights says, and how the sample is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.eplb import expert_location
from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE
from sglang.srt.runtime_context import derive_spawn_ranks
from swerl_api import LoraSpec
from swerl_trainer.engines.part_sums import held_experts, with_experts
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.conversion import hf_shapes
from swerl_trainer.megatron.engine_layout import adapter_sums, engine_sums, others, sample_names, weight_sum
from swerl_trainer.megatron.lora import adapter_shapes
from swerl_trainer.weight_bucket import WeightSample

from tests.trainer.megatron.families import MODELS
from tests.trainer.megatron.families import make_model as make_family

A, B = "model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight"


def sample(**sums: str) -> WeightSample:
    return WeightSample((), ({A: sums["a"], B: sums["b"]},))


def test_parameter_that_has_matched_is_wrong_when_it_differs() -> None:
    check = WeightCheck()
    assert check.wrong(sample(a="1", b="2"), [[{A: "1", B: "2"}], [{A: "1", B: "2", "other": "9"}]]) == [[], []]
    assert check.wrong(sample(a="3", b="4"), [[{A: "3", B: "4"}], [{A: "1", B: "4"}]]) == [[], [A]]
    assert check.mismatches == 1


def test_layers_share_what_is_known_of_a_kind() -> None:
    check = WeightCheck()
    check.wrong(WeightSample((), ({A: "1"},)), [[{A: "1"}]])
    later = A.replace(".0.", ".17.")
    assert check.wrong(WeightSample((), ({later: "1"},)), [[{later: "2"}]]) == [[later]]


def test_parameter_that_never_matched_is_in_another_form(caplog: pytest.LogCaptureFixture) -> None:
    check = WeightCheck()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert check.wrong(sample(a="1", b="2"), [[{A: "packed", B: "2"}]]) == [[]]
    assert caplog.text.count("another form: model.layers.N.mlp.down_proj.weight") == 1
    assert not check.equal(sample(a="1", b="2"), [[{A: "packed", B: "2"}]])
    assert (check.mismatches, check.uncompared) == (0, 1)


def test_parameter_that_engines_lack_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    check = WeightCheck()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert check.wrong(sample(a="1", b="2"), [[{B: "2"}]]) == [[]]
    assert caplog.text.count("another form: model.layers.N.mlp.down_proj.weight") == 1
    assert check.uncompared == 1


def test_one_engine_that_differs_from_another_at_once_is_wrong() -> None:
    assert WeightCheck().wrong(sample(a="1", b="2"), [[{A: "1", B: "2"}], [{A: "0", B: "2"}]]) == [[], [A]]


def test_engine_that_lacks_a_parameter_of_the_sample_is_not_equal() -> None:
    assert not WeightCheck().equal(sample(a="1", b="2"), [[{A: "1"}]])
    assert not WeightCheck().equal(sample(a="1", b="2"), [[]])
    expert = "model.layers.0.mlp.experts.3.w13_weight"
    assert WeightCheck().equal(WeightSample((), ({A: "1", expert: "2"},)), [[{A: "1"}]])
    assert not WeightCheck().equal(WeightSample((), ({A: "1", expert: "2"},)), [[{A: "1", expert: "3"}]])


def test_all_weights_are_compared_in_turn(make_model: Callable[[int], Path]) -> None:
    architecture = read_architecture(make_model(0))
    names = [sample_names(architecture, version) for version in range(6)]
    assert names[:3] == names[3:]
    assert sorted(name for part in names[:3] for name in part) == sorted(hf_shapes(architecture))
    assert others(architecture, names[1]) == (
        "model.layers.0.",
        "embed_tokens.",
        "lm_head.",
        "model.norm.",
        ".experts.w",
    )
    assert others(architecture, names[2]) == ("model.layers.",)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_sums_are_of_each_rank_s_share(make_model: Callable[[int], Path], ranks: int) -> None:
    architecture = read_architecture(make_model(0))
    tensors = {name: torch.randn(shape) for name, shape in hf_shapes(architecture).items()}
    layer = {name: tensors[name] for name in sample_names(architecture, 1)}
    head, heads, groups = architecture.head_size, architecture.heads, architecture.groups
    for rank, sums in enumerate(engine_sums(layer, architecture, ranks)):
        prefix = "model.layers.1."
        query = layer[f"{prefix}self_attn.q_proj.weight"].view(heads, head, -1)
        first = rank * heads // ranks
        mine = query[first : first + heads // ranks].flatten(0, 1)
        group = rank * groups // ranks
        held = range(group, group + max(1, groups // ranks))
        keys, values = (
            torch.cat([layer[f"{prefix}self_attn.{part}_proj.weight"][g * head : (g + 1) * head] for g in held])
            for part in "kv"
        )
        assert sums[f"{prefix}self_attn.qkv_proj.weight"] == weight_sum(torch.cat([mine, keys, values]))
        width = architecture.intermediate // ranks
        part = slice(rank * width, (rank + 1) * width)
        gate, up = (layer[f"{prefix}mlp.{name}_proj.weight"][part] for name in ("gate", "up"))
        assert sums[f"{prefix}mlp.gate_up_proj.weight"] == weight_sum(torch.cat([gate, up]))
        assert sums[f"{prefix}mlp.down_proj.weight"] == weight_sum(layer[f"{prefix}mlp.down_proj.weight"][:, part])
        assert sums[f"{prefix}input_layernorm.weight"] == weight_sum(layer[f"{prefix}input_layernorm.weight"])


@pytest.mark.parametrize(("ranks", "expert_ranks"), [(1, 1), (2, 1), (2, 2), (4, 2), (8, 8)])
def test_sums_are_of_each_rank_s_experts(tmp_path: Path, ranks: int, expert_ranks: int) -> None:
    """Which experts and which shard of them a rank holds is what SGLang derives for it."""
    make_family(tmp_path, **MODELS["qwen3-moe"])
    architecture = read_architecture(tmp_path)
    names = [name for name in sample_names(architecture, 1) if ".experts." in name]
    tensors = {name: torch.randn(hf_shapes(architecture)[name]) for name in names}
    prefix = "model.layers.1.mlp.experts."
    for rank, sums in enumerate(engine_sums(tensors, architecture, ranks, expert_ranks)):
        widths = {"moe_dp_size": 1, "moe_ep_size": expert_ranks}
        place = derive_spawn_ranks(
            world_rank=rank, tp_size=ranks, ep_join_rank_offset=0, attn_cp_size=1, attn_tp_size=ranks, **widths
        )
        shares = ranks // expert_ranks
        expected = {}
        for number, _ in held_experts(sglang_layer(8, expert_ranks, place["moe_ep_rank"])):
            gate, up, down = (tensors[f"{prefix}{number}.{part}_proj.weight"] for part in ("gate", "up", "down"))
            shard = place["moe_tp_rank"]
            both = [part.chunk(shares)[shard] for part in (gate, up)]
            expected[f"{prefix}{number}.w13_weight"] = weight_sum(torch.cat(both))
            expected[f"{prefix}{number}.w2_weight"] = weight_sum(down.chunk(shares, dim=1)[shard])
        assert sums == expected


def sglang_layer(experts: int, parts: int, part: int) -> Any:
    """What of SGLang's layer says which experts it holds."""
    layer = SimpleNamespace(
        _expert_storage_rank=part,
        _num_local_routed=experts // parts,
        _has_fused_shared=False,
        num_global_routed_experts=experts,
        uses_expert_location=False,
    )
    layer._map_global_expert_id_to_local_expert_id = partial(FusedMoE._map_global_expert_id_to_local_expert_id, layer)
    return layer


def test_experts_are_named_where_an_engine_has_moved_and_copied_them(monkeypatch: pytest.MonkeyPatch) -> None:
    location = SimpleNamespace(physical_to_logical_map_cpu=torch.tensor([[0, 1, 2, 3, 0, 1], [5, 0, 3, 1, 2, 4]]))
    monkeypatch.setattr(expert_location, "get_global_expert_location_metadata", lambda: location)
    layer = sglang_layer(6, 2, 1)
    layer.uses_expert_location, layer.layer_id = True, 1
    assert held_experts(layer) == [(1, 0), (2, 1), (4, 2)]


def test_quantised_experts_and_other_layers_keep_the_checker_s_names() -> None:
    layers = {"a.experts": sglang_layer(2, 1, 0), "b.experts": SimpleNamespace()}
    checker = SimpleNamespace(_get_model=lambda: SimpleNamespace(get_submodule=layers.__getitem__))
    stacked = torch.zeros(2, 4, 4)
    state = {
        "a.experts.w13_weight": stacked,
        "a.experts.w2_weight": stacked.to(torch.float8_e4m3fn),
        "b.experts.w2_weight": stacked,
    }
    named = [name for name, _ in with_experts(lambda _: iter(state.items()), checker)]
    assert named == ["a.experts.0.w13_weight", "a.experts.1.w13_weight", "a.experts.w2_weight", "b.experts.w2_weight"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_adapter_sums_are_of_stacked_factors(make_model: Callable[[int], Path], ranks: int) -> None:
    architecture = read_architecture(make_model(0))
    lora = LoraSpec(rank=4, targets=["q_proj", "v_proj", "o_proj"])
    shapes = adapter_shapes(architecture, lora)
    factors = {name: torch.randn(shape) for name, shape in shapes.items() if name.startswith("model.layers.1.")}
    a, b = (
        {part: factors[f"model.layers.1.self_attn.{part}_proj.lora_{factor}.weight"] for part in "qvo"}
        for factor in "AB"
    )
    for rank, sums in enumerate(adapter_sums(factors, architecture, ranks)):
        query, value, inner = (t.tensor_split(ranks)[rank] for t in (b["q"], b["v"], a["o"].T))
        expected = {
            "qkv_proj.lora_A": torch.cat([a["q"], torch.zeros_like(a["v"]), a["v"]]),
            "qkv_proj.lora_B": torch.cat([query, torch.zeros_like(value), value]),
            "o_proj.lora_A": inner.T,
            "o_proj.lora_B": b["o"],
        }
        assert sums == {f"model.layers.1.{name}": weight_sum(tensor) for name, tensor in expected.items()}
