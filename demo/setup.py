"""The set-up before the job is applied: cluster, images, operator, the job's namespace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.errors import ClusterError
from cluster.layout import image_listing, locked, swerl_home
from cluster.lifecycle import install_packages
from demo.cluster import ROOT, DemoCluster
from demo.job import NAMESPACE, SYSTEM_NAMESPACE, Images, dependency_manifests, namespace_manifest
from demo.steps import StepFailed, Steps, run

RELEASE = "swe-rl"


def prepare(cluster: DemoCluster, steps: Steps) -> Images:
    """Set up what is missing, step by step. Raises StepFailed."""
    if not cluster.local and not os.environ.get("SWERL_REGISTRY"):
        raise StepFailed(
            "SWERL_CLUSTER=existing needs SWERL_REGISTRY (host/path that this machine and the nodes reach)"
        )
    images = build_all(cluster, steps)
    with steps.step("operator", f"helm upgrade --install {RELEASE} charts/ --namespace {SYSTEM_NAMESPACE}"):
        install_operator(cluster, images)
    with steps.step("namespace", f"namespace {NAMESPACE}: prompts, output volume"):
        remove_job(cluster)
        cluster.apply(namespace_manifest(), *dependency_manifests())
    return images


def build_all(cluster: DemoCluster, steps: Steps) -> Images:
    """A running cluster, and all images in its registry. Raises StepFailed."""
    with (
        steps.step("cluster", "Kubernetes" if cluster.local else f"Kubernetes of {cluster.kubeconfig}"),
        _ahead(cluster),
    ):
        cluster.start()
    with steps.step("images", "container images: build those that changed, push them to the registry"):
        run([sys.executable, "-m", "images"], show=True)
    return Images.load()


@contextmanager
def _ahead(cluster: DemoCluster) -> Iterator[None]:
    """On a bare machine, build the images while the block builds the cluster: downloads leave a core free."""
    if not cluster.local or image_listing(swerl_home()).is_file():
        yield
        return
    try:
        install_packages(swerl_home())
    except ClusterError as error:
        raise StepFailed(str(error)) from error
    building = subprocess.Popen(
        [sys.executable, "-m", "images", "--store"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
        building.wait()  # what fails in it fails again in the next step, with its message
    finally:
        building.terminate()
        building.wait()


def install_operator(cluster: DemoCluster, images: Images) -> None:
    """Install or upgrade the chart and the CRDs, which helm itself never upgrades; wait until the operator is ready.

    Programs of this machine do so one after the other: helm refuses a release that another one is changing.
    """
    with locked(swerl_home() / "helm.lock"):
        _install_operator(cluster, images)


def _install_operator(cluster: DemoCluster, images: Images) -> None:
    crds = str(ROOT / "charts" / "crds")
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=swerl-demo", "-f", crds)
    repository, _, tag = images["operator"].rpartition(":")
    values = [f"image.repository={repository}", f"image.tag={tag}"]
    options = [word for value in values for word in ("--set-string", value)]
    namespace_options = ["--namespace", SYSTEM_NAMESPACE, "--create-namespace"]
    cluster.helm(
        "upgrade", "--install", RELEASE, str(ROOT / "charts"), *namespace_options, *options, "--wait", "--timeout", "3m"
    )


def main() -> int:
    """Exit status of `build_all`, for `make test`."""
    try:
        build_all(DemoCluster.from_environment(), Steps())
    except StepFailed as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    return 0


def remove_job(cluster: DemoCluster) -> None:
    """Delete the demo's namespace of an earlier run, with everything in it."""
    cluster.kubectl("delete", "swerljobs.swerl.dev", "--all", "--namespace", NAMESPACE, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s")


if __name__ == "__main__":
    sys.exit(main())
