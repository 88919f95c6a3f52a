"""Fixtures of all suites: the real cluster's kubeconfig and a namespace per test module."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.layout import cluster_name, make_command, state_folder, swerl_home
from tests import record

# A background job of a shell starts with interrupts ignored, and so would every process the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    record.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    record.register(config)


def without_make() -> dict[str, str]:
    """This process's environment for a `make` of its own: without what the suite's make and its path put there."""
    theirs = {"PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    return {name: value for name, value in os.environ.items() if name not in theirs}


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the lock under which a test process changes state shared by all test processes of the machine."""
    with (Path(tempfile.gettempdir()) / "swerl-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    """Path of the kubeconfig: $KUBECONFIG, else that of the local cluster, $SWERL_CLUSTER_NAME."""
    path = os.environ.get("KUBECONFIG") or str(state_folder(swerl_home(), cluster_name()) / "kubeconfig")
    if not Path(path).is_file():
        pytest.fail(f"no cluster: {path} does not exist; run `{make_command('cluster', cluster_name())}` first")
    return path


def kubectl(kubeconfig: str, *args: str, stdin: str | None = None, check: bool = True) -> str:
    """Output of one kubectl call; raises CalledProcessError with its stderr in the note."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", kubeconfig, *args], input=stdin, capture_output=True, text=True, timeout=120
    )
    if check and done.returncode:
        raise AssertionError(f"kubectl {' '.join(args)} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


@pytest.fixture(scope="module")
def namespace(kubeconfig: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace named after the test module; removed, without waiting, when the module is done."""
    stem = re.sub(r"[^a-z0-9]+", "-", Path(str(request.node.path)).stem.removeprefix("test_").lower())
    name = f"t-{stem[:40]}-{os.getpid()}-{os.urandom(2).hex()}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    kubectl(kubeconfig, "create", "-f", "-", stdin=json.dumps(manifest))
    kubectl(kubeconfig, "wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=110s")
    yield name
    kubectl(kubeconfig, "delete", "namespace", name, "--wait=false", check=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why a first try failed; the report of pytest-rerunfailures only names the test."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"first try: {report.nodeid}", sep="_")
        terminalreporter.write_line("\n".join(report.longreprtext.splitlines()[-60:]))
