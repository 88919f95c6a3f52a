"""One rank against transformers and a plain torch GRPO: same log-probabilities, same gradients, same weights back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file
from swerl_api import TrainerSpec
from swerl_api.algorithm import CorrectionSpec
from swerl_trainer.algorithm import Batch, TrainingSequence
from swerl_trainer.megatron.config import data_parallel_size
from swerl_trainer.megatron.conversion import from_megatron, parameter_mappings
from swerl_trainer.megatron.errors import ConversionError, LayoutError, TrainerError
from swerl_trainer.megatron.trainer import MAX_SKIPPED, MegatronTrainer
from torch import Tensor
from transformers import Qwen3ForCausalLM

from .families import read_folder

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

NO_CLIPPING = 1e9  # a norm that no gradient reaches


def hf_model(folder: str | Path) -> Any:
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)


def token_figures(model: Any, sequence: TrainingSequence) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy of each token of a sequence, alone; 0 for the first."""
    distribution = torch.log_softmax(model(sequence.tokens[None]).logits[0, :-1].float(), dim=-1)
    logprobs = distribution.gather(1, sequence.tokens[1:, None])[:, 0]
    entropy = -(distribution.exp() * distribution).sum(dim=-1)
    return torch.cat([torch.zeros(1), logprobs]), torch.cat([torch.zeros(1), entropy])


def reference_loss(model: Any, batch: Batch) -> Tensor:
    """Clipped GRPO with token-level TIS, KL to the reference and entropy bonus, sequence by sequence, unpacked."""
    total = torch.zeros(())
    count = batch.trainable_tokens
    for s in batch.sequences:
        assert s.old_logprobs is not None and s.rollout_logprobs is not None and s.reference_logprobs is not None
        logprobs, entropy = token_figures(model, s)
        ratio = (logprobs - s.old_logprobs).exp()
        surrogate = torch.minimum(ratio * s.advantages, ratio.clamp(0.8, 1.28) * s.advantages)
        weight = (s.old_logprobs - s.rollout_logprobs).exp().clamp(0.0, 1.1)
        difference = s.reference_logprobs - logprobs
        kl = difference.exp() - difference - 1
        total = total + ((-weight * surrogate + 0.05 * kl - 0.01 * entropy) * s.mask).sum() / count
    return total


def gradients(trainer: Any) -> dict[str, Tensor]:
    """Gradients of the last step in Hugging Face names."""
    parameters = dict(trainer.model.named_parameters())
    found: dict[str, Tensor] = {}
    for entry in parameter_mappings(trainer.architecture, 1):
        gradient = next(parameters[name] for name in entry.megatron if name in parameters).main_grad
        found |= dict(from_megatron(entry, [gradient], trainer.architecture))
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_log_probs_equal_transformers(start: Start, make_config: MakeConfig, batch: Batch, tied: bool) -> None:
    trainer = start(make_config(tied=tied))
    model = hf_model(trainer.config.model)
    with torch.no_grad():
        for actual, sequence in zip(trainer.log_probs(batch), batch.sequences, strict=True):
            reference = token_figures(model, sequence)[0] * sequence.mask
            assert (actual - reference).abs().max() < 2e-6


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_equal_a_plain_torch_loss(start: Start, make_config: MakeConfig, batch: Batch, tied: bool) -> None:
    correction = CorrectionSpec(mode="truncate", high=1.1)
    terms = {"kl_coef": 0.05, "entropy_coef": 0.01, "correction": correction}
    trainer = start(make_config(tied=tied, max_grad_norm=NO_CLIPPING, **terms))
    model = hf_model(trainer.config.model)
    trainer._reference = None  # the batch brings its own reference log-probabilities
    expected = reference_loss(model, batch)
    torch.autograd.backward(expected)
    metrics = trainer.train_step(batch)
    assert metrics["loss"] == pytest.approx(expected.item(), abs=1e-6)
    reference = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, actual in gradients(trainer).items():
        assert (actual - reference[name]).abs().max() < 1e-5 * reference[name].abs().max() + 1e-9, name


def test_packing_changes_no_loss(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    packed = start(make_config(max_tokens_per_gpu=10_000)).train_step(batch)
    one_by_one = start(make_config(max_tokens_per_gpu=1)).train_step(batch)
    assert (packed["micro_batches"], one_by_one["micro_batches"]) == (1, len(batch))
    for figure in ("loss", "grad_norm", "entropy", "mismatch_kl", "logprob_abs_diff_max", "clip_fraction"):
        assert packed[figure] == pytest.approx(one_by_one[figure], rel=1e-5), figure


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputing_activations_changes_no_gradient(
    start: Start, make_config: MakeConfig, batch: Batch, recompute: str
) -> None:
    plain, recomputed = (
        start(make_config()).train_step(batch),
        start(make_config(recompute=recompute)).train_step(batch),
    )
    assert recomputed["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-6)


def test_temperature_divides_the_logits(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(temperature=0.7))
    model = hf_model(trainer.config.model)
    sequence = batch.sequences[0]
    with torch.no_grad():
        distribution = torch.log_softmax(model(sequence.tokens[None]).logits[0, :-1] / 0.7, dim=-1)
    reference = distribution.gather(1, sequence.tokens[1:, None])[:, 0] * sequence.mask[1:]
    assert (trainer.log_probs(batch)[0][1:] - reference).abs().max() < 2e-6


def test_minibatches_step_off_policy(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    metrics = start(make_config(minibatches=3, lr=1e-2)).train_step(batch)
    assert metrics["updates"] == 3
    assert metrics["update_kl"] != 0.0


def test_empty_batch_changes_nothing(start: Start, make_config: MakeConfig) -> None:
    metrics = start(make_config()).train_step(Batch(()))
    assert metrics["updates"] == 0 and "loss" not in metrics


def test_masked_tokens_have_no_part_in_loss_or_normaliser(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    correction = CorrectionSpec(mode="mask", low=0.5, high=1.5)
    trainer = start(make_config(correction=correction, max_grad_norm=NO_CLIPPING))
    model = hf_model(trainer.config.model)
    total, kept = torch.zeros(()), 0
    for s in batch.sequences:
        assert s.rollout_logprobs is not None
        logprobs, _ = token_figures(model, s)
        weight = (logprobs.detach() - s.rollout_logprobs).exp()
        mask = s.mask & (weight >= 0.5) & (weight <= 1.5)
        total = total - (weight * s.advantages * (logprobs - logprobs.detach()).exp() * mask).sum()
        kept += int(mask.sum())
    metrics = trainer.train_step(batch)
    assert metrics["loss"] == pytest.approx(float(total) / kept, abs=1e-6)
    assert 0 < metrics["rejected_tokens"] == batch.trainable_tokens - kept
    reference = torch.autograd.grad(total / kept, list(model.parameters()))
    for (name, _), gradient in zip(model.named_parameters(), reference, strict=True):
        assert (gradients(trainer)[name] - gradient).abs().max() < 1e-5 * gradient.abs().max() + 1e-9, name


def test_engine_probabilities_can_serve_as_old_ones(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(old_logprobs="rollout"))
    model = hf_model(trainer.config.model)
    total = torch.zeros(())
    with torch.no_grad():
        for s in batch.sequences:
            assert s.rollout_logprobs is not None
            ratio = (token_figures(model, s)[0] - s.rollout_logprobs).exp()
            total -= (torch.minimum(ratio * s.advantages, ratio.clamp(0.8, 1.28) * s.advantages) * s.mask).sum()
    assert trainer.train_step(batch)["loss"] == pytest.approx(float(total) / batch.trainable_tokens, abs=1e-6)


def weights_of(trainer: Any) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def test_update_without_finite_gradients_is_skipped(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(name="reinforce", lr=1e-2))
    first, *others = batch.sequences
    broken = replace(batch, sequences=(replace(first, advantages=first.advantages * float("nan")), *others))
    before = weights_of(trainer)
    metrics = trainer.train_step(broken)
    assert (metrics["skipped_updates"], metrics["new_updates"], metrics["updates"]) == (1, 0, 0)
    assert all(map(torch.equal, before, weights_of(trainer)))
    metrics = trainer.train_step(batch)
    assert (metrics["skipped_updates"], metrics["new_updates"]) == (0, 1)
    assert all(torch.isfinite(parameter).all() for parameter in weights_of(trainer))
    for _ in range(MAX_SKIPPED):
        trainer.train_step(broken)
    with pytest.raises(TrainerError, match="not finite in 6 updates in a row"):
        trainer.train_step(broken)


def test_infinite_gradients_of_one_rank_are_known_to_all(
    make_config: MakeConfig, batch: Batch, run_ranks: RunRanks
) -> None:
    report = run_ranks(2, {"data": make_config()}, batch, only_gradients=True)
    assert report["data"] == {"broken None": [True, True], "broken 0": [False, False], "broken 1": [False, False]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_checkpoint_before_the_first_update_is_the_model(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path, dtype: str
) -> None:
    config = make_config(dtype=dtype, name="reinforce", group_size=1)
    trainer = start(config)
    trainer.train_step(Batch(()))
    trainer.save(str(tmp_path / "checkpoint"))
    before = weights_of(trainer)
    unbroken = [trainer.train_step(batch)["grad_norm"] for _ in range(2)]
    resumed = start(config)
    resumed.load(str(tmp_path / "checkpoint"))
    assert all(map(torch.equal, before, weights_of(resumed)))
    assert [resumed.train_step(batch)["grad_norm"] for _ in range(2)] == unbroken


@pytest.mark.parametrize("tied", [False, True])
def test_conversion_is_exact_both_ways(start: Start, make_config: MakeConfig, tmp_path: Path, tied: bool) -> None:
    trainer = start(make_config(tied=tied))
    trainer.save_hf(str(tmp_path / "hf"))
    original = load_file(Path(trainer.config.model) / "model.safetensors")
    written = read_folder(tmp_path / "hf")
    assert written.keys() == original.keys()
    assert all(torch.equal(written[name], tensor) for name, tensor in original.items())
    assert (tmp_path / "hf" / "tokenizer_config.json").is_file()
    hf_model(tmp_path / "hf")


def betas_of(trainer: MegatronTrainer) -> set[tuple[float, float]]:
    return {group["betas"] for group in trainer.optimizer.param_groups}


def test_optimizer_has_the_betas_of_the_job_after_a_resume_too(
    start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path
) -> None:
    before = start(make_config())
    assert betas_of(before) == {(0.9, 0.98)}
    before.train_step(batch)
    before.save(str(tmp_path / "checkpoint"))
    resumed = start(make_config(adam_beta1=0.8, adam_beta2=0.999))
    resumed.load(str(tmp_path / "checkpoint"))
    assert betas_of(resumed) == {(0.8, 0.999)}


def test_resumed_run_is_the_unbroken_run(start: Start, make_config: MakeConfig, batch: Batch, tmp_path: Path) -> None:
    trainer = start(make_config())
    trainer.train_step(batch)
    trainer.save(str(tmp_path / "checkpoint"))
    unbroken = [trainer.train_step(batch) for _ in range(3)]
    resumed = start(make_config())
    resumed.load(str(tmp_path / "checkpoint"))
    for expected in unbroken:
        again = resumed.train_step(batch)
        for figure in ("loss", "grad_norm", "logprob", "entropy", "updates"):
            assert again[figure] == expected[figure], figure


def test_bfloat16_trains(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    trainer = start(make_config(dtype="bfloat16", name="sft"))
    losses = [trainer.train_step(batch)["loss"] for _ in range(3)]
    assert losses[2] < losses[0]


def test_layout_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(LayoutError, match="multiple of 4"):
        data_parallel_size(TrainerSpec(image="i", tensor_parallel=2, pipeline_parallel=2), 6)


def test_closed_trainer_leaves_no_threads(start: Start, make_config: MakeConfig, batch: Batch) -> None:
    start(make_config()).train_step(batch)
    threads = process_group_threads()
    start(make_config()).train_step(batch)
    assert 0 < process_group_threads() == threads


def process_group_threads() -> int:
    """Threads of gloo in this process."""
    return sum("gloo" in (thread / "comm").read_text() for thread in Path("/proc/self/task").iterdir())


def test_wrong_model_folder_is_refused_by_name(start: Start, make_config: MakeConfig, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"config\.json"):
        start(make_config(model=str(tmp_path)))
