"""The CRDs and the chart of this checkout, on the cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.job import Images

ROOT = Path(__file__).resolve().parents[3]
Json = dict[str, Any]
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def kubectl(kubeconfig: str, crds: None) -> Kubectl:
    """Runs kubectl; never raises, the caller looks at returncode, stdout and stderr."""

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", kubeconfig, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)

    return run


def helm(kubeconfig: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["helm", "--kubeconfig", kubeconfig, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def release(kubeconfig: str, kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """An installed release without operator processes."""
    name = f"t-{os.getpid()}"
    done = helm(
        kubeconfig, "install", name, str(ROOT / "charts"), "-n", namespace, "--set", "replicas=0", "--skip-crds"
    )
    assert done.returncode == 0, done.stderr
    yield name
    helm(kubeconfig, "uninstall", name, "-n", namespace)


@pytest.fixture(scope="session")
def operator_image() -> str:
    """The operator's image of this checkout, as the cluster pulls it."""
    return Images.load()["operator"]


@pytest.fixture(scope="module")
def driver(kubectl: Kubectl, namespace: str, release: str) -> str:
    """User name of a driver's account with the rights the operator gives it."""
    account = f"system:serviceaccount:{namespace}:demo-driver"
    kubectl("create", "serviceaccount", "demo-driver", "-n", namespace)
    role = f"--clusterrole={release}-driver"
    kubectl("create", "rolebinding", "demo-driver", "-n", namespace, role, f"--serviceaccount={namespace}:demo-driver")
    return account


def account_kubeconfig(kubeconfig: str, token: str) -> Json:
    """The kubeconfig with the token as its only credential."""
    admin = yaml.safe_load(Path(kubeconfig).read_text())
    name = admin["contexts"][0]["name"]
    context = {"cluster": admin["clusters"][0]["name"], "user": "account"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": admin["clusters"],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
