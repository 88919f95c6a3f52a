"""The CRDs of this checkout, on the cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def kubectl(kubeconfig: str) -> Kubectl:
    """Runs kubectl; never raises, the caller looks at returncode, stdout and stderr."""

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", kubeconfig, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)

    applied = run("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    assert applied.returncode == 0, applied.stderr
    waited = run("wait", "--for=condition=Established", "-f", str(ROOT / "crds"), "--timeout=60s")
    assert waited.returncode == 0, waited.stderr
    return run
