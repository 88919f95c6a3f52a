"""Each family of models and each rotary embedding against transformers: same log-probabilities, same weights back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.architecture import FAMILIES, read_architecture
from swerl_trainer.megatron.conversion import (
    ROUTER_BIAS,
    check_tensors,
    from_megatron,
    hf_shapes,
    parameter_mappings,
    to_megatron,
)
from swerl_trainer.megatron.errors import ConversionError
from swerl_trainer.megatron.hf_folder import open_folder
from swerl_trainer.megatron.model import check_tied
from swerl_trainer.megatron.rotary import rotary
from torch import Tensor
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from .families import GLM, LINEAR, LLAMA3, MODELS, SHAPE, YARN, make_model, read_folder

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start


@pytest.mark.parametrize("name", MODELS)
def test_model_computes_and_converts_as_transformers_does(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path, name: str
) -> None:
    model = make_model(tmp_path / "model", **MODELS[name])
    trainer = start(make_config(model=str(tmp_path / "model")))
    with torch.no_grad():
        for actual, sequence in zip(trainer.log_probs(batch), batch.sequences, strict=True):
            distribution = torch.log_softmax(model(sequence.tokens[None]).logits[0, :-1], dim=-1)
            expected = distribution.gather(1, sequence.tokens[1:, None])[:, 0] * sequence.mask[1:]
            assert (actual[1:] - expected).abs().max() < 1e-5
    trainer.save_hf(str(tmp_path / "hf"))
    original = load_file(tmp_path / "model" / "model.safetensors")
    written = read_folder(tmp_path / "hf")
    assert written.keys() == original.keys()
    assert all(torch.equal(written[tensor], values) for tensor, values in original.items())


def test_update_sends_the_router_biases_although_they_are_not_trained(
    start: Start, make_config: MakeConfig, tmp_path: Path
) -> None:
    make_model(tmp_path / "model", **GLM)
    trainer = start(make_config(model=str(tmp_path / "model")))
    sent = {name for bucket in trainer.sender.part(2**20, whole=False).buckets for name in bucket.names}
    assert sent == hf_shapes(read_architecture(tmp_path / "model")).keys()
    assert any(name.endswith(ROUTER_BIAS) for name in sent)


@pytest.mark.parametrize("name", ["qwen2", "qwen3-yarn", "llama3", "qwen3-moe", "glm4-moe", "glm4-moe-plain-attention"])
def test_shards_of_two_ranks_are_the_whole_tensors_again(tmp_path: Path, name: str) -> None:
    make_model(tmp_path, **MODELS[name])
    architecture, tensors = read_architecture(tmp_path), load_file(tmp_path / "model.safetensors")
    assert {tensor: tuple(values.shape) for tensor, values in tensors.items()} == hf_shapes(architecture)
    joined: dict[str, Tensor] = {}
    for entry in parameter_mappings(architecture, 2, 2):
        size = 1 if entry.split is None else 2
        with open_folder(tmp_path) as reader:
            chunks = [reader.chunks(entry.hf, entry.split, rank, size) for rank in range(size)]
        shards = [to_megatron(entry, of_rank, architecture, size) for of_rank in chunks]
        joined |= from_megatron(entry, shards, architecture)
    assert all(torch.equal(joined[tensor], values) for tensor, values in tensors.items())


LAYOUTS = {
    "experts": {"expert_parallel": 2},
    "tensor": {"tensor_parallel": 2},
    "tensor-experts": {"tensor_parallel": 2, "expert_parallel": 2},
    "pipeline": {"pipeline_parallel": 2},
}
SENDERS = {"experts": 2, "tensor": 1, "tensor-experts": 2, "pipeline": 2}  # ranks that send a part of the weights
FIGURES = ("loss", "grad_norm", "logprob", "entropy", "logprob_abs_diff_max")


@pytest.mark.timeout(900)
def test_experts_on_two_ranks_train_as_on_one(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, tmp_path: Path
) -> None:
    make_model(tmp_path / "model", **GLM, vocab_size=321)  # which two ranks pad
    config = {"model": str(tmp_path / "model"), "entropy_coef": 0.01}
    one_rank = start(make_config(**config))
    before = one_rank.log_probs(batch)
    expected = [one_rank.train_step(batch) for _ in range(2)]
    one_rank.save(str(tmp_path / "alone"))
    expected.append(one_rank.train_step(batch))
    after = one_rank.log_probs(batch)
    cases = {name: make_config(**config, **layout) for name, layout in LAYOUTS.items()}
    report = run_ranks(2, cases, batch, checkpoint=str(tmp_path / "alone"))
    exports = []
    assert {name: len(report[name]["senders"]) for name in LAYOUTS} == SENDERS
    for name in LAYOUTS:
        for actual, full_model in zip(report[name]["before"] + report[name]["after"], before + after, strict=True):
            assert (actual - full_model).abs().max() < 1e-4, name
        for step, figures in zip(report[name]["steps"], expected, strict=True):
            assert {f: step[f] for f in FIGURES} == pytest.approx({f: figures[f] for f in FIGURES}, rel=5e-4), name
        assert report[name]["again"]["grad_norm"] == report[name]["steps"][2]["grad_norm"], name
        one_rank.load(str(report[name]["folder"] / "checkpoint"))
        for step in (one_rank.train_step(batch), report[name]["resumed"]):  # checkpoints move to one rank, and from it
            assert {f: step[f] for f in FIGURES} == pytest.approx({f: expected[2][f] for f in FIGURES}, rel=5e-4), name
        exports.append(read_folder(report[name]["folder"] / "hf"))
    assert all(torch.allclose(export[t], exports[0][t], atol=2e-5) for export in exports for t in exports[0])


@pytest.mark.parametrize(
    "parameters", [LINEAR, LLAMA3, YARN, YARN | {"attention_factor": 1.3}, YARN | {"beta_fast": 16}]
)
def test_rotary_frequencies_are_those_of_transformers(parameters: dict[str, Any]) -> None:
    config = AutoConfig.for_model("llama", **{**SHAPE, "rope_parameters": parameters})
    frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, torch.device("cpu"))
    own = rotary({**SHAPE, "rope_parameters": parameters}, 16)
    assert own is not None
    assert own.frequencies == pytest.approx(frequencies.tolist(), rel=1e-6)
    assert own.attention_factor == pytest.approx(factor)


def test_older_form_of_a_rotary_scaling_is_read() -> None:
    old = {**SHAPE, "rope_theta": 20_000.0, "rope_scaling": {"type": "linear", "factor": 4.0}}
    assert rotary(old, 16) == rotary({**SHAPE, "rope_parameters": LINEAR}, 16)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"model_type": "gpt2"}, "model type 'gpt2' is not one of qwen2"),
        ({"attention_bias": True}, "attention_bias True"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5"),
        (GLM | {"n_group": 2}, "n_group 2"),
        (GLM | {"norm_topk_prob": False}, "norm_topk_prob False with num_experts_per_tok 3"),
        (GLM | {"rope_parameters": YARN}, "attention factor in a part of each head"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "type 'longrope' is not one of default"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "type 'llama3' needs 'low_freq_factor'"),
    ],
)
def test_model_that_would_not_convert_exactly_is_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], fault: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | {"model_type": "llama"} | fields))
    with pytest.raises(ConversionError, match=fault):
        read_architecture(tmp_path)


def test_output_layer_that_contradicts_the_configuration_is_refused(tmp_path: Path) -> None:
    """A tied model whose files have another output layer; transformers and SGLang would read it differently."""
    make_model(tmp_path, **MODELS["llama"])
    tensors = load_file(tmp_path / "model.safetensors")
    output = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors | {"lm_head.weight": output}, tmp_path / "model.safetensors")
    with open_folder(tmp_path) as reader:
        check_tensors(reader.shapes(), read_architecture(tmp_path), "here")
        check_tied(reader, 0, 2)
    output[-1, -1] += 1
    save_file(tensors | {"lm_head.weight": output}, tmp_path / "model.safetensors")
    with open_folder(tmp_path) as reader:
        check_tied(reader, 0, 2)  # the other rank has the difference
        with pytest.raises(ConversionError, match=r"lm_head.weight differs from model.embed_tokens.weight"):
            check_tied(reader, 1, 2)


def test_layers_for_multi_token_prediction_are_left_out(tmp_path: Path) -> None:
    make_model(tmp_path, **GLM | {"num_mtp_layers": 0})
    config = json.loads((tmp_path / "config.json").read_text())
    tensors = load_file(tmp_path / "model.safetensors")
    present = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    extra = present | {"model.layers.2.eh_proj.weight": (64, 128)}
    for count in (1, 0):
        (tmp_path / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": count}))
        if count:
            check_tensors(extra, read_architecture(tmp_path), "here")
        else:
            with pytest.raises(ConversionError, match=r"1 unknown tensors, first model.layers.2.eh_proj"):
                check_tensors(extra, read_architecture(tmp_path), "here")


def test_every_family_has_a_model_here() -> None:
    assert {model["model_type"] for model in MODELS.values()} == set(FAMILIES)
