"""The set-up before the job is applied: cluster, images, operator, the job's namespace."""

from __future__ import annotations

import os
import sys

from cluster.layout import locked, swerl_home
from demo.cluster import ROOT, Cluster
from demo.job import NAMESPACE, SYSTEM_NAMESPACE, Images, dependency_manifests, namespace_manifest
from demo.steps import StepFailed, Steps, run

RELEASE = "swe-rl"


def prepare(cluster: Cluster, steps: Steps) -> Images:
    """Set up what is missing, step by step. Raises StepFailed."""
    if not cluster.local and not os.environ.get("SWERL_REGISTRY"):
        raise StepFailed(
            "SWERL_CLUSTER=existing needs SWERL_REGISTRY (host/path that this machine and the nodes reach)"
        )
    with steps.step("cluster", "Kubernetes" if cluster.local else f"Kubernetes of {cluster.kubeconfig}"):
        cluster.start()
    with steps.step("images", "container images: build those that changed, push them to the registry"):
        run([sys.executable, "-m", "images"], show=True)
    images = Images.load()
    with steps.step("operator", f"helm upgrade --install {RELEASE} charts/ --namespace {SYSTEM_NAMESPACE}"):
        install_operator(cluster, images)
    with steps.step("namespace", f"namespace {NAMESPACE}: prompts, output volume"):
        remove_job(cluster)
        cluster.apply(namespace_manifest(), *dependency_manifests())
    return images


def install_operator(cluster: Cluster, images: Images) -> None:
    """Install or upgrade the chart and the CRDs, which helm itself never upgrades; wait until the operator is ready.

    Programs of this machine do so one after the other: helm refuses a release that another one is changing.
    """
    with locked(swerl_home() / "helm.lock"):
        _install_operator(cluster, images)


def _install_operator(cluster: Cluster, images: Images) -> None:
    crds = str(ROOT / "charts" / "crds")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=swerl-demo", "-f", crds)
    repository, _, tag = images["operator"].rpartition(":")
    values = [f"image.repository={repository}", f"image.tag={tag}"]
    options = [word for value in values for word in ("--set-string", value)]
    namespace_options = ["--namespace", SYSTEM_NAMESPACE, "--create-namespace"]
    cluster.helm(
        "upgrade", "--install", RELEASE, str(ROOT / "charts"), *namespace_options, *options, "--wait", "--timeout", "3m"
    )


def remove_job(cluster: Cluster) -> None:
    """Delete the demo's namespace of an earlier run, with everything in it."""
    cluster.kubectl("delete", "swerljobs.swerl.dev", "--all", "--namespace", NAMESPACE, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")
