"""The chart on a real cluster: what it installs, what it leaves, and what drivers may not do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tests.conftest import one_at_a_time

from .conftest import ROOT, Kubectl, helm

KINDS = "all,sa,role,rolebinding,lease,cm,secret,networkpolicy"
CLUSTER_KINDS = "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"


def _of_release(kubectl: Kubectl, namespace: str, release: str) -> list[str]:
    selector = f"app.kubernetes.io/instance={release}"
    found = kubectl("get", KINDS, "-n", namespace, "-l", selector, "-o", "name").stdout
    found += kubectl("get", CLUSTER_KINDS, "-l", selector, "-o", "name").stdout
    found += kubectl("get", "role,rolebinding", "-n", "default", "-l", selector, "-o", "name").stdout
    return found.split()


def test_driver_has_only_the_rights_it_needs(kubectl: Kubectl, namespace: str, driver: str) -> None:
    def is_allowed(verb: str, resource: str, in_namespace: str = namespace, subresource: str = "") -> bool:
        question = (
            "auth",
            "can-i",
            verb,
            resource,
            "-n",
            in_namespace,
            f"--as={driver}",
            f"--subresource={subresource}",
        )
        return kubectl(*question).stdout.strip() == "yes"

    assert is_allowed("create", "swesandboxes.swerl.dev") and is_allowed("create", "jobs.batch")
    assert is_allowed("create", "pods", subresource="exec") and is_allowed("get", "pods", subresource="log")
    assert is_allowed("patch", "swerljobs.swerl.dev", subresource="status") and not is_allowed(
        "patch", "swerljobs.swerl.dev"
    )
    assert (
        not is_allowed("create", "pods")
        and not is_allowed("get", "secrets")
        and not is_allowed("create", "rolebindings")
    )
    assert not is_allowed("create", "swesandboxes.swerl.dev", in_namespace="default")
    slices = "endpointslices.discovery.k8s.io"  # where the API server is, for the probe of a sandbox's isolation
    assert is_allowed("get", f"{slices}/kubernetes", "default") and not is_allowed("list", slices, "default")


def test_driver_cannot_exec_into_other_pods(kubectl: Kubectl, namespace: str, driver: str) -> None:
    done = kubectl("exec", "-n", namespace, "database-0", f"--as={driver}", "--", "true")
    if "NotFound" in done.stderr:  # kubectl reads the Pod first: give it one to read
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "database-0", "namespace": namespace},
            "spec": {"containers": [{"name": "c", "image": "none.invalid/none"}], "nodeName": "no-such-node"},
        }
        kubectl("create", "-f", "-", stdin=json.dumps(body))
        done = kubectl("exec", "-n", namespace, "database-0", f"--as={driver}", "--", "true")
        kubectl("delete", "pod", "database-0", "-n", namespace, "--force")
    assert "drivers and the operator may exec only into sandbox Pods" in done.stderr, done.stderr


def test_invalid_values_are_refused_by_name(kubeconfig: str, namespace: str) -> None:
    done = helm(kubeconfig, "install", "bad", str(ROOT / "charts"), "-n", namespace, "--set", "replicas=-1")
    assert done.returncode != 0 and "replicas" in done.stderr


def test_kuberay_of_another_installation_is_left_to_it(kubeconfig: str, namespace: str) -> None:
    values = ("--skip-crds", "--dry-run=server", "--set", "kuberay.install=true")
    done = helm(kubeconfig, "install", "beside", str(ROOT / "charts"), "-n", namespace, *values)
    assert done.returncode == 0, done.stderr
    assert "beside-operator" in done.stdout and "beside-kuberay" not in done.stdout
    assert "KubeRay is not installed with this release: another installation has made its CRDs" in done.stdout


def test_install_prints_no_warning_where_pod_security_warns(
    kubeconfig: str, kubectl: Kubectl, namespace: str, release: str
) -> None:
    level = "pod-security.kubernetes.io/warn"
    values = ("--set", f"console.enabled=true,console.claim=none,replicas=2,namespaces={{{namespace}}}")
    assert kubectl("label", "namespace", namespace, f"{level}=restricted").returncode == 0
    try:
        plain = kubectl("run", "plain", "--image=none.invalid/none", "-n", namespace, "--dry-run=server")
        done = helm(
            kubeconfig, "install", f"{release}-w", str(ROOT / "charts"), "-n", namespace, "--skip-crds", *values
        )
    finally:
        helm(kubeconfig, "uninstall", f"{release}-w", "-n", namespace)
        kubectl("label", "namespace", namespace, f"{level}-")
    assert "would violate PodSecurity" in plain.stderr
    assert (done.returncode, done.stderr) == (0, "")


def test_upgrade_writes_the_crds_and_a_rollback_keeps_them(
    kubeconfig: str, kubectl: Kubectl, namespace: str, release: str, operator_image: str
) -> None:
    name = "sweimagesets.swerl.dev"
    columns = ("get", "crd", name, "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}")
    newest = kubectl(*columns).stdout
    older = [
        {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}
    ]  # a column that others do not read
    with one_at_a_time():
        assert kubectl("patch", "crd", name, "--type=json", "-p", json.dumps(older)).returncode == 0
        assert kubectl(*columns).stdout != newest
        repository, _, tag = operator_image.rpartition(":")
        image = ("--set", f"image.repository={repository}", "--set", f"image.tag={tag}", "--set", "image.pullPolicy=")
        scope = ("-n", namespace, "--set", "replicas=0", *image)
        done = helm(kubeconfig, "upgrade", release, str(ROOT / "charts"), *scope, "--timeout", "110s")
        assert done.returncode == 0, done.stderr + kubectl("logs", "-n", namespace, f"job/{release}-crd-upgrade").stderr
        assert kubectl(*columns).stdout == newest
    assert "crd-upgrade" not in kubectl("get", "jobs,sa", "-n", namespace, "-o", "name").stdout
    done = helm(kubeconfig, "rollback", release, "1", "-n", namespace)
    assert done.returncode == 0, done.stderr
    assert kubectl(*columns).stdout == newest


def test_rollback_brings_the_image_of_the_former_version_back(
    kubeconfig: str, kubectl: Kubectl, namespace: str, release: str, tmp_path: Path
) -> None:
    def image() -> str:
        column = "jsonpath={.spec.template.spec.containers[0].image}"
        return kubectl("get", "deployment", f"{release}-operator", "-n", namespace, "-o", column).stdout

    newer = shutil.copytree(ROOT / "charts", tmp_path / "charts")
    described = yaml.safe_load((newer / "Chart.yaml").read_text())
    (newer / "Chart.yaml").write_text(yaml.safe_dump(described | {"version": "99.0.0", "appVersion": "99.0.0"}))
    assert image() == f"swe-rl/operator:{described['appVersion']}"
    options = ("-n", namespace, "--set", "replicas=0,crds.upgrade=false")
    done = helm(kubeconfig, "upgrade", release, str(newer), *options)
    assert done.returncode == 0, done.stderr
    assert image() == "swe-rl/operator:99.0.0"
    done = helm(kubeconfig, "rollback", release, "-n", namespace)
    assert done.returncode == 0, done.stderr
    assert image() == f"swe-rl/operator:{described['appVersion']}"


def test_uninstall_leaves_nothing_but_crds(kubeconfig: str, kubectl: Kubectl, namespace: str, release: str) -> None:
    assert len(_of_release(kubectl, namespace, release)) >= 10
    done = helm(kubeconfig, "uninstall", release, "-n", namespace, "--wait")
    assert done.returncode == 0, done.stderr
    assert _of_release(kubectl, namespace, release) == []
    assert "swerljobs.swerl.dev" in kubectl("get", "crd", "-o", "name").stdout
