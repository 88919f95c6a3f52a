"""These suites run operators of their own: the one of an installed chart would serve their namespaces, too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_plane.operator_process import Operator

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session", autouse=True)
def no_installed_operator(kubeconfig: str) -> None:
    """Remove the chart's release; `make demo` and the end-to-end suite install it again."""
    command = ["helm", "--kubeconfig", kubeconfig, "uninstall", "swe-rl", "--namespace", "swerl-system"]
    subprocess.run([*command, "--ignore-not-found", "--wait"], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="session")
def crds(kubeconfig: str) -> None:
    """The CRDs of this checkout, applied and served."""
    kubectl = ["kubectl", "--kubeconfig", kubeconfig]
    apply = [*kubectl, "apply", "--server-side", "--force-conflicts", "-f", str(CRDS)]
    wait = [*kubectl, "wait", "--for=condition=Established", "-f", str(CRDS), "--timeout=60s"]
    for command in (apply, wait):
        subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str, namespace: str, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator that leads and serves the module's namespace; `identity` lets it take over from a killed one."""
    log = tmp_path_factory.mktemp("operator") / "log"
    with Operator(kubeconfig, log, namespaces=namespace, lease_namespace=namespace, identity="test") as running:
        running.until_leading()
        yield running
