"""Exports are pruned, moved aside and mirrored as checkpoints are."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from swerl_api import ExportSpec
from swerl_trainer.driver.exporter import WeightExporter
from swerl_trainer.mirror import Mirror


class Ranks:
    """Ranks whose weights are one small file."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.saves = 0

    async def save_hf(self, folder: Path) -> None:
        self.saves += 1
        if self.saves <= self.failures:
            raise OSError("no space left on device")
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(10))


class SlowMirror(Mirror):
    """Copies once `may_copy` is set."""

    def __init__(self) -> None:
        super().__init__(f"memory://{uuid.uuid4()}/exports")
        self.may_copy = asyncio.Event()

    async def copy(self, folder: Path, *, keep_last: int) -> None:
        await self.may_copy.wait()
        await super().copy(folder, keep_last=keep_last)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "exports"


async def test_training_continues_while_an_export_is_mirrored(root: Path) -> None:
    mirror, ranks = SlowMirror(), Ranks()
    exporter = WeightExporter(root, ExportSpec(every=1, keep_last=1), asyncio.Lock(), mirror)
    first: Any = exporter.export_if_due(ranks, 1, last=False)  # type: ignore[arg-type]
    await asyncio.wait_for(first, 10)
    second = asyncio.create_task(exporter.export_if_due(ranks, 2, last=False))  # type: ignore[arg-type]
    await asyncio.sleep(0.05)
    assert not second.done() and (root / "step-0000001").is_dir(), "it is still being copied"
    mirror.may_copy.set()
    await second
    await exporter.wait()
    assert [path.name for path in root.iterdir()] == mirror.names() == ["step-0000002"]


async def test_exports_later_than_the_present_one_are_moved_aside(root: Path) -> None:
    for name in ("step-0000002", "step-0000008", "step-0000009", ".step-0000008.77"):
        (root / name).mkdir(parents=True)
    exporter = WeightExporter(root, ExportSpec(every=1, keep_last=1), asyncio.Lock())
    await exporter.export_if_due(Ranks(), 4, last=False)  # type: ignore[arg-type]
    names = sorted(path.name for path in root.iterdir())
    assert names == ["step-0000004", "step-0000008.abandoned", "step-0000009.abandoned"]


async def test_attempt_without_a_step_makes_the_last_export_once(root: Path) -> None:
    ranks: Any = Ranks(failures=1)
    with pytest.raises(OSError, match="no space"):
        await WeightExporter(root, ExportSpec(), asyncio.Lock()).export_if_due(ranks, 4, last=True)
    for _ in range(2):
        await WeightExporter(root, ExportSpec(), asyncio.Lock()).export_if_missing(ranks, 4)
    assert ([path.name for path in root.iterdir()], ranks.saves) == (["step-0000004"], 2)


async def test_job_without_exports_makes_none_at_the_end(root: Path) -> None:
    ranks: Any = Ranks()
    await WeightExporter(root, None, asyncio.Lock()).export_if_missing(ranks, 4)
    assert ranks.saves == 0
