"""Commands of pages that install charts, as the pages have them.

What differs from a reader's: namespaces and hosts. A registry and a repository of charts on loopback serve the charts.
"""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from swerl_agent import RELEASE

from cluster.layout import registry
from release.__main__ import push_chart
from tests.unit.docs.pages import command_of

from .conftest import ROOT, Kubectl, helm

CHART = "apiVersion: v2\nname: kuberay-operator\nversion: 1.0.0\n"
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"
Helm = Callable[..., str]


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def run(kubeconfig: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helm:
    """Runs helm in the test's namespace, with repositories of its own; its output. It must succeed."""
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / name))

    def execute(*words: str) -> str:
        done = helm(kubeconfig, *words, "--namespace", namespace)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return execute


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """The URL of a repository with a chart named kuberay-operator."""
    chart = tmp_path / "kuberay-operator"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(CHART)
    (chart / "templates/object.yaml").write_text(OBJECT)
    for command in (["package", str(chart), "-d", "charts"], ["repo", "index", "charts"]):
        subprocess.run(["helm", *command], cwd=tmp_path, check=True, capture_output=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(tmp_path / "charts"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_documented_commands_install_a_chart_of_a_repository(
    run: Helm, repository: str, kubectl: Kubectl, namespace: str
) -> None:
    page = "docs/decisions/kuberay.md"
    *add, url = command_of(page, "helm", "repo", "add")[1:]
    assert url.startswith("https://")
    run(*add, repository)
    run(*command_of(page, "helm", "upgrade", "--install")[1:])
    assert kubectl("get", "configmap", "kuberay-operator", "-n", namespace).returncode == 0
    run("uninstall", "kuberay-operator")


def test_documented_command_installs_the_chart_of_the_registry(run: Helm, tmp_path: Path) -> None:
    run("package", str(ROOT / "charts"), "-d", str(tmp_path))
    push_chart(tmp_path / f"swe-rl-{RELEASE}.tgz", f"{registry()}/documented")
    words = command_of("docs/releases.md", "helm", "install", "swe-rl")[1:]
    assert words[words.index("--version") + 1] == RELEASE
    here = [word.replace("oci://registry.example.org/team", f"oci://{registry()}/documented") for word in words]
    rendered = run(*here, "--plain-http", "--skip-crds", "--dry-run=server")
    assert f"registry.example.org/team/swe-rl/operator:{RELEASE}" in rendered


def test_documented_command_adds_the_console_to_a_release(
    run: Helm, kubectl: Kubectl, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/console.md").read_text()
    values = re.search(r"```yaml\n(console:\n.*?)```", page, re.DOTALL)
    assert values
    monkeypatch.chdir(tmp_path)
    Path("charts").symlink_to(ROOT / "charts")
    Path("console-values.yaml").write_text(values[1].replace("swe-gym ", f"{namespace} "))
    run("install", "swe-rl", "charts/", "--set", "replicas=0", "--skip-crds")
    try:
        run(*command_of("docs/console.md", "helm", "upgrade")[1:])
        found = kubectl(
            "get",
            "deployment",
            "-n",
            namespace,
            "-o",
            "jsonpath={range .items[*]}{.metadata.name}={.spec.replicas} {end}",
        )
        assert found.stdout.split() == ["swe-rl-console=1", "swe-rl-operator=0"], found
    finally:
        run("uninstall", "swe-rl", "--wait")
