"""The driver ends before ranks and engines start when the model does not fit."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from swerl_api import SweRLJobSpec
from swerl_trainer.driver.preflight import check_layout
from swerl_trainer.job import Job, Paths
from swerl_trainer.megatron.errors import LayoutError

CONFIG = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 1024,
}


def job(folder: Path, trainer: dict[str, Any], config: dict[str, Any]) -> Job:
    (folder / "config.json").write_text(json.dumps(config))
    spec = SweRLJobSpec.model_validate(
        {
            "model": {"source": {"persistentVolumeClaim": {"claimName": "m"}}, "dtype": "float32"},
            "tasks": {"source": {"configMap": {"name": "t"}}},
            "agent": {"contextTokens": 512, "maxTokensPerTurn": 64},
            "trainer": {"image": "trainer", "maxTokensPerGpu": 1024, **trainer},
            "checkpoint": {"volume": {"hostPath": {"path": "/runs"}}},
        }
    )
    return Job("demo", "n", "u", 1, "demo-1", spec, Paths(model=folder))


async def test_fitting_job_is_planned_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await check_layout(job(tmp_path, {}, CONFIG))
    assert "0.0 B parameters, 2 layers, context 1024" in caplog.text and "step " in caplog.text


async def test_layout_that_cannot_divide_the_model_is_refused_with_one_that_can(tmp_path: Path) -> None:
    wide = {"replicas": 4, "tensorParallel": 4}
    with pytest.raises(LayoutError, match=r"key/value heads 2 .* tensorParallel 4.*a layout that fits: replicas 4, "):
        await check_layout(job(tmp_path, wide, CONFIG))


async def test_host_memory_is_that_of_the_pods_limit(tmp_path: Path) -> None:
    small = {"resources": {"limits": {"memory": "256Mi"}}}
    with pytest.raises(LayoutError, match=r"needs .* GiB of host memory at save, its limit or node has 0\.2 GiB"):
        await check_layout(job(tmp_path, small, CONFIG))


async def test_unknown_family_is_left_to_the_ranks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await check_layout(job(tmp_path, {}, CONFIG | {"model_type": "mamba"}))
    assert "model_type 'mamba' cannot be planned" in caplog.text
