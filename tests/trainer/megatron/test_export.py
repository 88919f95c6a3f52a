"""Weights that ranks write to a folder together: each its own, in files that are one model, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors import safe_open
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.conversion import ROUTER_BIAS
from transformers import AutoModelForCausalLM

from .families import GLM, MOE, make_model, read_folder
from .ranks import samples_of

if TYPE_CHECKING:
    from .conftest import MakeConfig, RunRanks, Start

TENSOR, PIPELINE, EXPERTS = {"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"expert_parallel": 2}
# Model, layout of four ranks, and the ranks that write.
LAYOUTS: dict[str, tuple[str, dict[str, Any], list[int]]] = {
    "tensor-pipeline": ("deep", TENSOR | PIPELINE, [0, 2]),
    "tensor-interleaved": ("deep", TENSOR | PIPELINE | {"virtual_pipeline": 2}, [0, 2]),
    "experts": ("qwen3-moe", EXPERTS, [0, 1]),
    "tensor-pipeline-experts": ("glm4-moe", TENSOR | PIPELINE | EXPERTS | {"dtype": "bfloat16"}, [0, 1, 2, 3]),
}


@pytest.fixture
def folders(models: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """A dense model and mixtures, in float32."""
    found = {"deep": models["deep"], "qwen3-moe": tmp_path / "qwen3-moe", "glm4-moe": tmp_path / "glm4-moe"}
    make_model(found["qwen3-moe"], **MOE)
    make_model(found["glm4-moe"], **GLM, num_hidden_layers=4)
    return found


def names_by_file(folder: Path) -> list[set[str]]:
    found = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found.append(set(file.keys()))
    return found


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one
    )


@pytest.mark.timeout(900)
def test_each_rank_writes_its_own_weights(
    run_ranks: RunRanks, make_config: MakeConfig, start: Start, batch: Batch, folders: dict[str, Path], tmp_path: Path
) -> None:
    cases = {name: make_config(model=str(folders[model]), **layout) for name, (model, layout, _) in LAYOUTS.items()}
    report = run_ranks(4, cases, batch, only_exports=True)
    for name, (model, _, writers) in LAYOUTS.items():
        parts, folder = report[name]["parts"], report[name]["folder"] / "hf"
        assert [rank for rank, names in enumerate(parts) if names] == writers, name
        assert names_by_file(folder) == [set(names) for names in parts if names], name
        alone = start(make_config(model=str(folders[model]), dtype=cases[name].dtype))
        alone.save_hf(str(tmp_path / "alone" / name))
        assert same(read_folder(folder), read_folder(tmp_path / "alone" / name)), name
        assert report[name]["samples"] == samples_of(alone), name
        assert [path.name for path in folder.parent.iterdir()] == ["hf"], name
        loads_as(folder, folders[model], cases[name].dtype)


def loads_as(folder: Path, original: Path, dtype: str) -> None:
    """transformers reads the exported folder as the model from which training began."""
    written, before = (
        AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).state_dict()
        for path in (folder, original)
    )
    unlike = {name for name in before if not torch.equal(written[name], before[name])}
    assert written.keys() == before.keys() and not unlike, unlike


def test_float32_among_bfloat16_stays_float32(
    start: Start, make_config: MakeConfig, folders: dict[str, Path], tmp_path: Path
) -> None:
    trainer = start(make_config(model=str(folders["glm4-moe"]), dtype="bfloat16"))
    trainer.save_hf(str(tmp_path / "hf"))
    written = read_folder(tmp_path / "hf")
    assert {name for name in written if written[name].dtype == torch.float32} == {
        n for n in written if n.endswith(ROUTER_BIAS)
    }
    assert any(name.endswith(ROUTER_BIAS) for name in written)
