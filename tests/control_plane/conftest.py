"""These suites run operators of their own: the one of an installed chart would serve their namespaces, too."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_installed_operator(kubeconfig: str) -> None:
    """Remove the chart's release; `make demo` and the end-to-end suite install it again."""
    command = ["helm", "--kubeconfig", kubeconfig, "uninstall", "swe-rl", "--namespace", "swerl-system"]
    subprocess.run([*command, "--ignore-not-found", "--wait"], check=True, capture_output=True, timeout=120)
