"""What a sample of an engine's weights says, and how the sample is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from swerl_api import LoraSpec
from swerl_trainer.engines.weight_check import WeightCheck
from swerl_trainer.megatron.architecture import read_architecture
from swerl_trainer.megatron.conversion import hf_shapes
from swerl_trainer.megatron.engine_layout import adapter_sums, engine_sums, others, sample_names, weight_sum
from swerl_trainer.megatron.lora import adapter_shapes
from swerl_trainer.weight_bucket import WeightSample

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
    assert check.mismatches == 0


def test_parameter_that_engines_lack_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    check = WeightCheck()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert check.wrong(sample(a="1", b="2"), [[{B: "2"}]]) == [[]]
    assert caplog.text.count("another form: model.layers.N.mlp.down_proj.weight") == 1


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
