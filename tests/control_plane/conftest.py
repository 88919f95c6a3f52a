"""These suites run their own operators; the operator of an installed chart would also serve their namespaces."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import one_at_a_time
from tests.control_plane.operator_process import Operator

CRDS = Path(__file__).parents[2] / "crds"


def run_locked(command: list[str]) -> None:
    """Run a command that changes what all test processes of this machine share, one at a time."""
    with one_at_a_time():
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.fixture(scope="session", autouse=True)
def no_installed_operator(kubeconfig: str) -> None:
    """Remove the chart's release; `make demo` and the end-to-end suite install it again."""
    command = ["helm", "--kubeconfig", kubeconfig, "uninstall", "swe-rl", "--namespace", "swerl-system"]
    run_locked([*command, "--ignore-not-found", "--wait"])


@pytest.fixture(scope="session")
def crds(kubeconfig: str) -> None:
    """The CRDs of this checkout, applied and served."""
    kubectl = ["kubectl", "--kubeconfig", kubeconfig]
    apply = [*kubectl, "apply", "--server-side", "--force-conflicts", "-f", str(CRDS)]
    wait = [*kubectl, "wait", "--for=condition=Established", "-f", str(CRDS), "--timeout=60s"]
    run_locked(apply)
    run_locked(wait)


@pytest.fixture(scope="module")
def operator_options() -> dict[str, str]:
    """What a module adds to its operator's command line."""
    return {}


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str,
    namespace: str,
    crds: None,
    operator_options: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operator]:
    """An operator that leads and serves the module's namespace; `identity` lets it take over from a killed one."""
    log = tmp_path_factory.mktemp("operator") / "log"
    options = {"namespaces": namespace, "lease_namespace": namespace, "identity": "test"} | operator_options
    with Operator(kubeconfig, log, **options) as running:
        running.until_leading()
        yield running
