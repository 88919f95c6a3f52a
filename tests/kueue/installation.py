"""The real Kueue on the local cluster, for as long as a test needs it.

Guarantees: the controller is built from its pinned module and installed by the chart of that module, with certificates
of its own making; it looks at namespaces that carry `LABEL` only, so nothing else on the cluster waits for it; when the
context ends, however, its webhooks, kinds, roles, namespace and processes are gone, and so are its finalizers. What a
killed run left is removed before the next one.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster import addons, build
from cluster.layout import REGISTRY_NAME, Cluster, cluster_name, find, swerl_home
from demo.steps import StepFailed, run
from tests.conftest import kubectl

Json = dict[str, Any]
LABEL = "swerl.dev/kueue-test"  # of the namespaces that Kueue manages
NAMESPACE = "kueue-system"
CONTROLLER = "kueue-controller-manager"
MANAGED = "kueue.x-k8s.io/managed"  # Kueue's label and finalizer of Pods
IMAGE = "swe-rl/kueue"
TIMEOUT_SECONDS = 180  # seconds
# What is deleted while the controller still runs, for it takes its finalizers off them; those that refer first.
OBJECTS = ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses")
# Where Kueue leaves traces.
KINDS = (
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "apiservices",
    "customresourcedefinitions",
    "clusterroles",
    "clusterrolebindings",
    "rolebindings",
)


@contextmanager
def installed(kubeconfig: str) -> Iterator[None]:
    """Kueue, ready to admit; raises AssertionError when anything of it is left at the end."""
    programs = build.build(swerl_home(), "kueue")
    manifests = _rendered(programs)
    remove(kubeconfig, manifests)
    try:
        kubectl(kubeconfig, "create", "namespace", NAMESPACE)
        kubectl(kubeconfig, "apply", "--server-side", "-f", "-", stdin=manifests)
        _until_ready(kubeconfig)
        yield
    finally:
        remove(kubeconfig, manifests)


def scale(kubeconfig: str, replicas: int) -> None:
    """Stop the controller (0) or start it (1), and wait until that is so."""
    kubectl(kubeconfig, "scale", f"deployment/{CONTROLLER}", f"--replicas={replicas}", "-n", NAMESPACE)
    if replicas:
        _until_ready(kubeconfig)
    else:
        kubectl(kubeconfig, "wait", "--for=delete", "pods", "--all", "-n", NAMESPACE, "--timeout=90s")


def remove(kubeconfig: str, manifests: str) -> None:
    """Takes everything of Kueue off the cluster, whatever state it is in."""
    for kind in OBJECTS:
        _gently(kubeconfig, "delete", f"{kind}.kueue.x-k8s.io", "--all", "--all-namespaces", "--timeout=30s")
    _gently(kubeconfig, "delete", "deployments", "--all", "-n", NAMESPACE, "--timeout=60s")
    webhooks = ",".join(KINDS[:2])
    _gently(kubeconfig, "delete", webhooks, "-l", "app.kubernetes.io/name=kueue", "--timeout=60s")
    unconverted = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}})
    for kind in OBJECTS:  # what a controller that was dead left held
        _gently(kubeconfig, "patch", "crd", f"{kind}.kueue.x-k8s.io", "--type=merge", "-p", unconverted)
        _release(kubeconfig, f"{kind}.kueue.x-k8s.io")
    _release(kubeconfig, "pods", "-l", f"{MANAGED}=true")
    _gently(kubeconfig, "delete", "--ignore-not-found", "--timeout=90s", "-f", "-", stdin=manifests)
    _gently(kubeconfig, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
    remaining = leftovers(kubeconfig)
    assert not remaining, f"of Kueue there is still {remaining}"


def leftovers(kubeconfig: str) -> list[str]:
    """What on the cluster has Kueue's name or finalizer."""
    found = []
    for kind in KINDS:
        listed = kubectl(kubeconfig, "get", kind, "--all-namespaces", "--ignore-not-found", "-o", "name").split()
        found += [name for name in listed if "kueue" in name]
    found += kubectl(kubeconfig, "get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name").split()
    pods = json.loads(kubectl(kubeconfig, "get", "pods", "--all-namespaces", "-o", "json"))["items"]
    return found + [pod["metadata"]["name"] for pod in pods if MANAGED in pod["metadata"].get("finalizers", [])]


def _rendered(programs: Path) -> str:
    """The chart's objects, less the aggregated API that shows queues: this cluster's API server has no aggregation."""
    values = yaml.safe_load((programs / "charts" / "kueue" / "values.yaml").read_text())
    config = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    config["integrations"] = {"frameworks": ["pod"]}
    config["managedJobsNamespaceSelector"] = {"matchLabels": {LABEL: "true"}}
    repository, tag = _pushed(programs)
    manager = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    expected = {
        "controllerManager": {"manager": manager, "featureGates": [{"name": "VisibilityOnDemand", "enabled": False}]},
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(config)},
    }
    chart = str(programs / "charts" / "kueue")
    text = run(
        ["helm", "template", "kueue", chart, "--namespace", NAMESPACE, "-f", "-"], stdin=yaml.safe_dump(expected)
    )
    documents = [document for document in yaml.safe_load_all(text) if document]
    return yaml.safe_dump_all(document for document in documents if document["kind"] != "APIService")


def _pushed(programs: Path) -> tuple[str, str]:
    """Repository and tag of the controller's image, which the local registry has now."""
    cluster = find(cluster_name(), swerl_home()) or Cluster(cluster_name(), 0, swerl_home())
    registry, tag = addons.registry(cluster), programs.name.rsplit("-", 1)[1]
    if not registry.has(IMAGE, tag):
        registry.push_programs(IMAGE, tag, {"manager": programs / "kueue"}, ["/manager"])
    return f"{REGISTRY_NAME}/{IMAGE}", tag


def _until_ready(kubeconfig: str) -> None:
    """Until the controller runs and its webhooks answer: a queue's flavor can be declared."""
    try:
        status = ("rollout", "status", "deployment", CONTROLLER, "-n", NAMESPACE)
        run(
            ["kubectl", "--kubeconfig", kubeconfig, *status, f"--timeout={TIMEOUT_SECONDS}s"],
            timeout=TIMEOUT_SECONDS + 10,
        )
        flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                kubectl(kubeconfig, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(flavor))
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
    except (AssertionError, StepFailed) as error:
        logs = kubectl(kubeconfig, "logs", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=kueue", check=False)
        raise AssertionError(f"Kueue does not become ready: {error}; its log ends: {logs[-3000:]}") from error


def _gently(kubeconfig: str, *arguments: str, stdin: str | None = None) -> None:
    """A step of the removal: a later step removes what it leaves, or `leftovers` reports it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        kubectl(kubeconfig, *arguments, stdin=stdin, check=False)


def _release(kubeconfig: str, *arguments: str) -> None:
    """Take all finalizers off these objects."""
    listed = kubectl(kubeconfig, "get", *arguments, "--all-namespaces", "-o", "json", check=False)
    for item in json.loads(listed or "{}").get("items", []):
        metadata = item["metadata"]
        if metadata.get("finalizers"):
            namespace_options = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
            patch = ("--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
            _gently(kubeconfig, "patch", arguments[0], metadata["name"], *namespace_options, *patch)
