"""The README's commands, run as they stand: the three commands, and `make demo`, also on an existing cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from swerl_api.crd import KINDS

from cluster.layout import cluster_name, registry, state_folder, swerl_home
from demo.cluster import ROOT, DemoCluster
from demo.job import SYSTEM_NAMESPACE, Images, documents
from demo.run import fetch_output
from demo.setup import RELEASE, install_operator
from tests.conftest import without_make

CRDS = [f"{kind.plural}.swerl.dev" for kind in KINDS]
EXPORT = "export KUBECONFIG=~/.cache/swerl/cluster/kubeconfig PATH=~/.cache/swerl/bin:$PATH"


class Shell:
    """A user's terminal: the checkout as folder, a kubeconfig whose context names a namespace of its own."""

    def __init__(self, kubeconfig: Path, **environment: str) -> None:
        search = f"{swerl_home() / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = without_make() | {"KUBECONFIG": str(kubeconfig), "PATH": search} | environment

    def run(self, command: str, timeout: float = 600) -> str:
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=self._environment, timeout=timeout, text=True, capture_output=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[str]:
        """The same in the background, in a process group of its own."""
        return subprocess.Popen(
            command, shell=True, cwd=ROOT, env=self._environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


@pytest.fixture
def shell(product: tuple[DemoCluster, Images], namespace: str, tmp_path: Path) -> Iterator[Shell]:
    """A terminal on a cluster where nothing of the product is installed."""
    cluster, images = product
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    copy = tmp_path / "kubeconfig"
    copy.write_text(yaml.safe_dump(config))
    copy.chmod(0o600)
    remove_product(cluster)
    yield Shell(copy)
    cluster.helm("uninstall", RELEASE, "--namespace", namespace, "--ignore-not-found", "--wait")
    install_operator(cluster, images)


def remove_product(cluster: DemoCluster) -> None:
    cluster.helm("uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--ignore-not-found", "--wait")
    cluster.kubectl("delete", "crds", *CRDS, "--ignore-not-found")


@pytest.mark.alone
def test_three_commands(product: tuple[DemoCluster, Images], shell: Shell, namespace: str) -> None:
    before = product_objects(shell)
    shell.run("helm install swe-rl charts/")
    installed = owned(shell, namespace)
    shell.run("kubectl apply -f swerljob.yaml")
    shell.run("kubectl wait swerl/demo --for=condition=Training --timeout=300s", 320)
    shell.run("until kubectl get swesandboxes | grep -q Ready; do sleep 1; done", 120)
    running = shell.run("kubectl get pods -l ray.io/cluster -o name").split()
    shell.run("helm uninstall swe-rl --wait")
    assert shell.run("kubectl get pods -l ray.io/cluster -o name").split() == running != []
    shell.run("helm install swe-rl charts/")
    shell.run("kubectl wait swerl/demo --for=jsonpath={.status.attempt}=2 --timeout=240s", 260)
    shell.run("kubectl wait swerl/demo --for=condition=Training --timeout=300s", 320)
    shell.run("kubectl delete -f swerljob.yaml --wait=false")
    deadline = time.monotonic() + 60
    while remaining := owned(shell, namespace) - installed:
        assert time.monotonic() < deadline, f"60 s after the job was deleted there are still {remaining}"
        time.sleep(1)
    shell.run("helm uninstall swe-rl --wait")
    remaining = product_objects(shell) - before
    assert remaining and all(name.startswith("customresourcedefinition") for name in remaining), remaining


def owned(shell: Shell, namespace: str) -> set[str]:
    """Names of the objects in `namespace` of any kind that a job is made of; the operator keeps its own Leases."""
    kinds = "swerl,swesandboxes,pods,jobs,rayclusters,pvc,configmaps,secrets,services,leases,networkpolicies"
    accounts = "serviceaccounts,roles,rolebindings"
    names = shell.run(f"kubectl get {kinds},{accounts} -n {namespace} -o name").split()
    return {name for name in names if "swe-rl-operator" not in name}


def product_objects(shell: Shell) -> set[str]:
    """Names of all objects that the product may have made, Pods and Events left out."""
    kinds = "crds,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
    inside = "deployments,services,serviceaccounts,roles,rolebindings,configmaps,secrets,leases,networkpolicies,pvc"
    cluster_wide = shell.run(f"kubectl get {kinds} -o name").split()
    listing = json.loads(shell.run(f"kubectl get {inside} -A -o json"))["items"]
    names = {f"{o['kind']}/{o['metadata']['namespace']}/{o['metadata']['name']}" for o in listing}
    return names | set(cluster_wide)


@pytest.fixture
def demo_shell(product: tuple[DemoCluster, Images], tmp_path: Path) -> Shell:
    """A terminal whose `make demo` takes as little as there is, and leaves what an earlier one wrote."""
    return Shell(product[0].kubeconfig, SWERL_DEMO_FOLDER=str(tmp_path / "demo"), STEPS="1", SAMPLES="1")


def test_make_demo(demo_shell: Shell, product: tuple[DemoCluster, Images], tmp_path: Path) -> None:
    output = demo_shell.run("make demo", 900)
    for text in ("held-out tasks resolved", "reward curve", "summary", "episodes"):
        assert text in output, output[-3000:]
    summary = json.loads((tmp_path / "demo" / "summary.json").read_text())
    assert summary["phase"] == "Complete" and len(summary["rewards"]) == 1
    assert summary["held_out_before"] is not None and summary["held_out_after"] is not None
    artifacts = tmp_path / "demo" / "output" / "artifacts"
    episodes = [path.parent for path in artifacts.rglob("traj.json")]
    assert len(episodes) > 32 and all((episode / "meta.json").is_file() for episode in episodes)
    assert (tmp_path / "demo" / "reward.png").read_bytes().startswith(b"\x89PNG")
    solved = re.search(r"── a solved episode, in full: (.+) ──", output)
    assert solved, output[-3000:]
    for message in json.loads((Path(solved[1]) / "traj.json").read_text())["messages"]:
        assert message["content"].rstrip() in output
    assert (Path(solved[1]) / "patch.diff").read_text() in output
    home = swerl_home()
    export = EXPORT.replace("~/.cache/swerl/cluster", str(state_folder(home, cluster_name())))
    export = export.replace("~/.cache/swerl", str(home))
    assert "Complete" in demo_shell.run(f"unset KUBECONFIG; {export}; kubectl get swerl -n swerl-demo")
    demo_shell.run(f"unset KUBECONFIG; {export}; kubectl get swesandboxes -n swerl-demo")
    fetched = fetch_output(replace(product[0], local=False), product[1], tmp_path / "from another cluster")
    assert files(fetched) == files(tmp_path / "demo" / "output")
    demo_shell.run("make demo-down")
    assert "demo" not in demo_shell.run("kubectl get swerl -n swerl-demo")


def files(folder: Path) -> dict[str, int]:
    """Sizes of the files below `folder`."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_interrupted_demo_on_an_existing_cluster_leaves_nothing(demo_shell: Shell) -> None:
    existing = f"SWERL_CLUSTER=existing SWERL_REGISTRY={registry()}"
    with demo_shell.start(f"{existing} make demo") as demo:
        demo_shell.run("until kubectl get swesandboxes -n swerl-demo | grep -q Ready; do sleep 1; done", 240)
        os.killpg(demo.pid, signal.SIGINT)  # as Ctrl-C in a terminal: to make and to all it started
        output, _ = demo.communicate(timeout=120)
    assert demo.returncode != 0 and "demo: stopped; if the cluster was started, it still runs" in output
    kinds = "swerl,rayclusters,swesandboxes,jobs,pods,leases"
    assert demo_shell.run(f"kubectl get {kinds} -n swerl-demo -o name") == ""


def test_job_file_is_self_contained() -> None:
    assert set(documents()) == {"ConfigMap", "PersistentVolumeClaim", "SweRLJob"}
