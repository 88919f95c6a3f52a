"""Ways to run a training rank and an engine on this machine's GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from swerl_trainer.algorithm import Batch
from swerl_trainer.megatron.config import RankConfig
from swerl_trainer.megatron.device import Device

from tests.gpu.shapes import Shape, write_random
from tests.ports import free_port
from tests.trainer.megatron.conftest import batch, make_config, models  # noqa: F401 - fixtures

RANK = Path(__file__).with_name("rank.py")
CPU = Device(cuda=False)
TORCH_KERNELS = Device(cuda=True, own_memory=True)
FUSED_KERNELS = Device(cuda=True, transformer_engine=True, own_memory=True)
KERNELS = [TORCH_KERNELS, *([FUSED_KERNELS] if find_spec("transformer_engine") else [])]

RunRank = Callable[..., dict[str, Any]]
MakeShape = Callable[[Shape, int], Path]


def name_of(device: Device) -> str:
    """What a parametrised test calls `device`."""
    return "cpu" if not device.cuda else "fused" if device.transformer_engine else "torch"


@pytest.fixture
def run_rank(tmp_path: Path) -> RunRank:
    """Run `rank.py` on a device; its report (see there)."""

    def run(
        config: RankConfig,
        sequences: Batch,
        device: Device,
        *,
        steps: int = 1,
        load: Path | None = None,
        save: Path | None = None,
    ) -> dict[str, Any]:
        job, output_file = tmp_path / "job.pt", tmp_path / "out.pt"
        fields = {"config": config, "batch": sequences, "device": device, "steps": steps, "load": load, "save": save}
        torch.save({**fields, "port": free_port(), "out": output_file}, job)
        hidden = {} if device.cuda else {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(RANK), str(job)],
            env=os.environ | hidden,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"rank on {name_of(device)} failed:\n{done.stdout[-4000:]}"
        report: dict[str, Any] = torch.load(output_file, weights_only=False)
        return report

    return run


@pytest.fixture(scope="session")
def make_shape(tmp_path_factory: pytest.TempPathFactory) -> MakeShape:
    """Folder of the random model of a shape and a seed."""
    tokenizers: dict[tuple[str, int], Path] = {}

    def make(shape: Shape, seed: int) -> Path:
        key = (shape.name, seed)
        if key not in tokenizers:
            tokenizers[key] = write_random(tmp_path_factory.mktemp("shapes") / f"{shape.name}-{seed}", shape, seed)
        return tokenizers[key]

    return make
