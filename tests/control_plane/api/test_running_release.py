"""A release with a running operator: `helm test` checks that it answers, a rollback restores its former image."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .conftest import ROOT, Kubectl, helm

WAIT = ("--wait", "--timeout", "110s")


@pytest.fixture(scope="module")
def running_release(kubeconfig: str, kubectl: Kubectl, namespace: str, operator_image: str) -> Iterator[str]:
    """A release of the checkout's image that serves this namespace alone."""
    name, (repository, _, tag) = f"h-{os.getpid()}", operator_image.rpartition(":")
    image = f"image.repository={repository},image.tag={tag},image.pullPolicy="
    options = ("-n", namespace, "--skip-crds", "--set", image, "--set", f"namespaces={{{namespace}}}")
    done = helm(kubeconfig, "install", name, str(ROOT / "charts"), *options)
    assert done.returncode == 0, done.stderr
    try:
        _wait_until_it_runs(kubectl, namespace, name)
        yield name
    finally:
        helm(kubeconfig, "uninstall", name, "-n", namespace)


def _wait_until_it_runs(kubectl: Kubectl, namespace: str, release: str) -> None:
    done = kubectl("rollout", "status", f"deployment/{release}-operator", "-n", namespace, "--timeout=110s")
    assert done.returncode == 0, done.stderr + kubectl("describe", "pods", "-n", namespace).stdout[-3000:]


def _image(kubectl: Kubectl, namespace: str, release: str) -> str:
    column = "jsonpath={.spec.template.spec.containers[0].image}"
    return kubectl("get", "deployment", f"{release}-operator", "-n", namespace, "-o", column).stdout


def test_helm_test_passes_while_the_operator_answers(kubeconfig: str, namespace: str, running_release: str) -> None:
    done = helm(kubeconfig, "test", running_release, "-n", namespace, "--timeout", "110s")
    assert done.returncode == 0 and "Succeeded" in done.stdout, done.stdout + done.stderr


def test_rollback_replaces_an_image_that_does_not_start(
    kubeconfig: str, kubectl: Kubectl, namespace: str, running_release: str
) -> None:
    before = _image(kubectl, namespace, running_release)
    newer = ("--reuse-values", "--set", "image.tag=absent,crds.upgrade=false")
    done = helm(kubeconfig, "upgrade", running_release, str(ROOT / "charts"), "-n", namespace, *newer)
    assert done.returncode == 0, done.stderr
    assert _image(kubectl, namespace, running_release) == f"{before.rpartition(':')[0]}:absent"
    done = helm(kubeconfig, "rollback", running_release, "-n", namespace, *WAIT)
    assert done.returncode == 0, done.stderr
    assert _image(kubectl, namespace, running_release) == before
    _wait_until_it_runs(kubectl, namespace, running_release)


def test_helm_test_fails_without_an_operator(
    kubeconfig: str, kubectl: Kubectl, namespace: str, running_release: str
) -> None:
    assert kubectl("scale", f"deployment/{running_release}-operator", "--replicas=0", "-n", namespace).returncode == 0
    gone = ("--for=delete", "pod", "-l", "app.kubernetes.io/component=operator", "-n", namespace, "--timeout=110s")
    assert kubectl("wait", *gone).returncode == 0
    done = helm(kubeconfig, "test", running_release, "-n", namespace, "--timeout", "110s")
    assert done.returncode != 0 and "failed" in done.stderr, done.stdout + done.stderr
