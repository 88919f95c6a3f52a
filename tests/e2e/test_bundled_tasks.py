"""Every bundled task, graded by real Jobs with the documented command: gold passes, the empty patch fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.layout import REGISTRY_NAME
from demo.cluster import ROOT, DemoCluster
from demo.job import Images
from images.bundled import SPLITS


@pytest.mark.parametrize("split", SPLITS)
def test_gold_passes_and_empty_patch_fails(
    product: tuple[DemoCluster, Images], namespace: str, tmp_path: Path, split: str
) -> None:
    cluster, _ = product
    command = [sys.executable, "-m", "swerl_agent.cli", "tasks", "check", f"tasks/{split}"]
    command += ["--registry-rewrite", f"={REGISTRY_NAME}/"]
    limits = ["--jobs", "4", "--cpu", "250m", "--memory", "128Mi", "--timeout", "120"]
    options = ["--kubeconfig", str(cluster.kubeconfig), "--namespace", namespace, "--output", str(tmp_path / "out")]
    done = subprocess.run([*command, *limits, *options], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
