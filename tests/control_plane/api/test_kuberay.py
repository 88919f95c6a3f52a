"""KubeRay as a part of the release, on an API server of its own: the local cluster's has been installed by others.

The tests run in their order, on one release.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from cluster import build
from cluster.kuberay import KubeRayModule
from cluster.layout import swerl_home
from tests.control_plane.api_server import api_server
from tests.ports import free_port

from .conftest import ROOT, Kubectl, account_kubeconfig, helm

RELEASE, NAMESPACE, OTHER = "swe-rl", "swerl", "other"
CHART = ROOT / "charts"
MODULE_TEMPLATE = "templates/_kuberay-module.tpl"
KINDS = "deployment,serviceaccount,role,rolebinding,clusterrole,clusterrolebinding,crd"
SECRET_LIMIT = 1024 * 1024  # bytes; Kubernetes' own
HEAD = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "head", "image": "none.invalid/ray"}]}}}
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def empty_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kubeconfig; each namespace has the account that a controller would make."""
    with api_server(tmp_path_factory.mktemp("empty")) as kubeconfig:
        for namespace in (NAMESPACE, OTHER):
            for kind in (("namespace", namespace), ("serviceaccount", "default", "-n", namespace)):
                subprocess.run(
                    ["kubectl", "--kubeconfig", kubeconfig, "create", *kind], check=True, capture_output=True
                )
        yield kubeconfig


@pytest.fixture(scope="module")
def on_empty(empty_cluster: str) -> Kubectl:
    """kubectl on it."""

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", empty_cluster, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def chart(empty_cluster: str) -> Helm:
    """`helm install` or `upgrade` with KubeRay; without the Job that writes our CRDs, which no node would run."""

    def run(
        verb: str, *values: str, release: str = RELEASE, namespace: str = NAMESPACE, folder: Path = CHART
    ) -> subprocess.CompletedProcess[str]:
        values = ("crds.upgrade=false", "kuberay.install=true", *values)
        settings = [part for value in values for part in ("--set", value)]
        done = helm(empty_cluster, verb, release, str(folder), "-n", namespace, *settings)
        assert done.returncode == 0, done.stderr
        return done

    return run


def objects(on_empty: Kubectl, release: str = RELEASE) -> set[str]:
    """Kind and name of each object of KubeRay that a release has made, in all namespaces."""
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component=kuberay"
    found = on_empty("get", KINDS, "-A", "-l", selector, "-o", "json").stdout
    return {f"{each['kind']}/{each['metadata']['name']}" for each in json.loads(found)["items"]}


def fields(on_empty: Kubectl) -> set[str]:
    """Fields of the spec of a RayCluster that the API server knows."""
    crd = json.loads(on_empty("get", "crd", "rayclusters.ray.io", "-o", "json").stdout)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


@contextmanager
def kuberay_process(kubeconfig: str, on_empty: Kubectl, folder: Path) -> Iterator[Path]:
    """KubeRay's program with account and arguments of the release's Deployment; its log."""
    name = f"{RELEASE}-kuberay"
    pod = json.loads(on_empty("get", "deployment", name, "-n", NAMESPACE, "-o", "json").stdout)["spec"]["template"][
        "spec"
    ]
    assert pod["serviceAccountName"] == name
    token = on_empty("create", "token", name, "-n", NAMESPACE).stdout.strip()
    account, log = folder / "account", folder / "log"
    account.write_text(yaml.safe_dump(account_kubeconfig(kubeconfig, token)))
    program = build.build(swerl_home(), "kuberay") / "kuberay-operator"
    command = [str(program), f"--kubeconfig={account}", f"--leader-election-namespace={NAMESPACE}"]
    command += [f"--{name}=127.0.0.1:{free_port()}" for name in ("metrics-addr", "health-probe-bind-address")]
    command += pod["containers"][0].get("args", [])
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.kill()
        process.wait(timeout=60)
        on_empty("delete", "lease", "ray-operator-leader", "-n", NAMESPACE)  # the next process would wait for its end


def until_head_pod(on_empty: Kubectl, namespace: str, log: Path) -> None:
    """Creates a RayCluster and waits for the Pod of its head."""
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "demo", "namespace": namespace},
        "spec": {"headGroupSpec": HEAD, "workerGroupSpecs": []},
    }
    on_empty("create", "-f", "-", stdin=json.dumps(body))
    deadline = time.monotonic() + 60
    while "demo-head" not in on_empty("get", "pods", "-n", namespace, "-o", "name").stdout:
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.3)


def test_release_installs_kuberay_and_upgrades_its_crds(on_empty: Kubectl, chart: Helm, tmp_path: Path) -> None:
    older = shutil.copytree(CHART, tmp_path / "charts")
    text = (older / MODULE_TEMPLATE).read_text()
    assert '"authOptions":' in text
    (older / MODULE_TEMPLATE).write_text(text.replace('"authOptions":', '"formerOptions":'))
    version = KubeRayModule.pinned().version
    assert f"KubeRay {version} runs as {RELEASE}-kuberay" in chart("install", folder=older).stdout
    assert {"authOptions", "formerOptions"} & fields(on_empty) == {"formerOptions"}
    chart("upgrade")
    assert {"authOptions", "formerOptions"} & fields(on_empty) == {"authOptions"}
    name = f"{RELEASE}-kuberay"
    kinds = {"Deployment", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
    resources = ("rayclusters", "raycronjobs", "rayjobs", "rayservices")
    leader = {f"{kind}/{name}-leader" for kind in ("Role", "RoleBinding")}
    crds = {f"CustomResourceDefinition/{each}.ray.io" for each in resources}
    assert objects(on_empty) == {f"{kind}/{name}" for kind in kinds} | leader | crds


def test_revision_fits_into_its_secret(on_empty: Kubectl) -> None:
    column = "jsonpath={.data.release}"
    stored = on_empty("get", "secret", f"sh.helm.release.v1.{RELEASE}.v2", "-n", NAMESPACE, "-o", column).stdout
    print(f"revision with KubeRay: {len(stored) * 3 // 4} bytes")
    assert len(stored) * 3 // 4 < SECRET_LIMIT / 2


def test_kuberay_works_with_the_rights_of_its_account(empty_cluster: str, on_empty: Kubectl, tmp_path: Path) -> None:
    with kuberay_process(empty_cluster, on_empty, tmp_path) as log:
        until_head_pod(on_empty, OTHER, log)
    assert "forbidden" not in log.read_text()


def test_kuberay_of_named_namespaces_has_rights_in_these_alone(
    empty_cluster: str, on_empty: Kubectl, chart: Helm, tmp_path: Path
) -> None:
    chart("upgrade", f"namespaces={{{NAMESPACE}}}")
    account = f"--as=system:serviceaccount:{NAMESPACE}:{RELEASE}-kuberay"
    with kuberay_process(empty_cluster, on_empty, tmp_path) as log:
        until_head_pod(on_empty, NAMESPACE, log)
    assert "forbidden" not in log.read_text()
    assert on_empty("auth", "can-i", "create", "pods", "-n", NAMESPACE, account).stdout.strip() == "yes"
    assert "pods" not in on_empty("auth", "can-i", "--list", "-n", OTHER, account).stdout


def test_another_release_leaves_kuberay_to_its_owner(on_empty: Kubectl, chart: Helm) -> None:
    done = chart("install", release="second", namespace=OTHER)
    assert f"KubeRay is not installed with this release: the release {RELEASE} in namespace {NAMESPACE}" in done.stdout
    assert objects(on_empty, "second") == set()


def test_kuberay_stays_when_its_release_goes(empty_cluster: str, on_empty: Kubectl, chart: Helm) -> None:
    before = objects(on_empty)
    chart("upgrade", "kuberay.install=false")
    assert objects(on_empty) == before
    done = helm(empty_cluster, "uninstall", RELEASE, "-n", NAMESPACE)
    assert done.returncode == 0, done.stderr
    assert objects(on_empty) == before and "demo-head" in on_empty("get", "pods", "-n", OTHER, "-o", "name").stdout
    chart("install")
    assert objects(on_empty) >= before


def test_pod_of_kuberay_starts_on_a_node(kubeconfig: str, kubectl: Kubectl, namespace: str) -> None:
    """Beside the local cluster's own KubeRay, whose image it takes: it serves the namespace of this test alone."""
    column = "jsonpath={.items[0].spec.template.spec.containers[0].image}"
    own = kubectl("get", "deployment", "-A", "--field-selector=metadata.name=kuberay-operator", "-o", column).stdout
    registry, _, name = own.partition("/")
    repository, _, tag = name.rpartition(":")
    image = {"registry": registry, "repository": repository, "tag": tag}
    kuberay = {"install": True, "image": image, "resources": {"requests": {"memory": "64Mi"}}}
    options = ("--show-only", "templates/kuberay.yaml", "--set-json", f"kuberay={json.dumps(kuberay)}")
    rendered = helm(
        kubeconfig, "template", namespace, str(CHART), "-n", namespace, "--set", f"namespaces={{{namespace}}}", *options
    )
    assert rendered.returncode == 0, rendered.stderr
    found = yaml.load_all(rendered.stdout, yaml.CSafeLoader)
    manifest = yaml.safe_dump_all([each for each in found if each["kind"] != "CustomResourceDefinition"])
    try:
        assert kubectl("create", "-f", "-", stdin=manifest).returncode == 0
        deployment = f"deployment/{namespace}-kuberay"
        started = kubectl("rollout", "status", deployment, "-n", namespace, "--timeout=90s")
        log = kubectl("logs", deployment, "-n", namespace).stdout
        assert started.returncode == 0, started.stderr + log
        assert "forbidden" not in log and f'"namespace":"{namespace}"' in log
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=false", stdin=manifest)
