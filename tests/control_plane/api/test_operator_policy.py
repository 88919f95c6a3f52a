"""What the operator's account tries beyond its work: each request is refused by the chart's policies."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from swerl_api import SweImageSetSpec
from swerl_operator.evals import manifests
from swerl_operator.images.manifests import pull_pod, pull_policy
from swerl_operator.jobs.manifests import attempt_preflight, cluster_plan, job_file
from swerl_operator.ray.accounts import role_binding, service_account
from swerl_operator.ray.cluster import ray_cluster
from swerl_operator.ray.network_policy import ray_policy
from swerl_operator.sandboxes.manifests import sandbox_pod
from swerl_operator.sandboxes.network_policy import sandbox_policy
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings

from tests.unit.operator.sandboxes.conftest import sandbox_body

from .conftest import Kubectl
from .test_driver_policy import changed
from .test_pod_security import attempt_of, evaluation_of

Json = dict[str, Any]
Create = Callable[[Json], str]
Objects = dict[str, Json]
CREATED = "created (server dry run)"
LABELS_ONLY = "the operator writes and deletes only objects with labels of swerl.dev"


def secret(name: str, labels: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels},
        "stringData": {"k": "v"},
    }


def honest_objects(release: str) -> Objects:
    """One object of each kind and shape that the operator writes, as it writes it."""
    attempt, evaluation = attempt_of(), evaluation_of()
    image_set: Json = {"metadata": {"name": "tasks", "namespace": "ns", "uid": "uid-1"}}
    account = attempt.shared_metadata(attempt.account)
    policy = ray_policy(
        attempt.shared_metadata(attempt.policy), attempt.shared_labels, operator_namespace="swerl-system"
    )
    return {
        "sandbox": sandbox_pod(parse_group(sandbox_body()), 0, SandboxSettings()),
        "pull": pull_pod(image_set, SweImageSetSpec.model_validate({"images": ["a"]}), ("no-such-node", "a")),
        "preflight": attempt_preflight(attempt),
        "preflight-of-evaluation": manifests.evaluation_preflight(evaluation),
        "shards": manifests.shards_job(evaluation, "secret"),
        "merge": manifests.merge_job(evaluation),
        "cluster": ray_cluster(cluster_plan(attempt)),
        "engines": ray_cluster(manifests.engines_plan(evaluation)),
        "job-file": job_file(attempt),
        "ray-policy": policy,
        "pull-policy": pull_policy(image_set),
        "sandbox-policy": sandbox_policy("ns", "internet", [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}]),
        "account": service_account(account),
        "binding": role_binding(account, f"{release}-driver"),
        "secret": secret("demo-ray-0123abcd", {"swerl.dev/job": "demo"}),
        "secret-of-engines": secret("nightly-engines-0123abcd", {"swerl.dev/evaluation": "nightly"}),
    }


@pytest.fixture(scope="module")
def honest(release: str, namespace: str) -> Objects:
    """Those objects in the namespace of the test, without owners, which do not exist here."""
    found = honest_objects(release)
    for body in found.values():
        body["metadata"] = {**body["metadata"], "namespace": namespace}
        body["metadata"].pop("ownerReferences", None)
        for subject in body.get("subjects", []):
            subject["namespace"] = namespace
    return found


@pytest.fixture(scope="module")
def create(kubectl: Kubectl, namespace: str, release: str) -> Create:
    """Creates an object as the operator, in a dry run on the server; the answer is what the server says."""
    account = f"--as=system:serviceaccount:{namespace}:{release}-operator"
    assert kubectl("create", "serviceaccount", "rich", "-n", namespace).returncode == 0

    def create(body: Json) -> str:
        command = ("create", "-n", namespace, account, "--dry-run=server", "-f", "-")
        done = kubectl(*command, stdin=json.dumps(body))
        return done.stdout + done.stderr

    unlabelled: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    deadline = time.monotonic() + 60
    while LABELS_ONLY not in (answer := create(unlabelled)):  # a new policy is in force after some seconds
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)
    return create


def test_operator_creates_what_it_needs(create: Create, honest: Objects) -> None:
    answers = {name: create(body) for name, body in honest.items()}
    assert {name: answer for name, answer in answers.items() if CREATED not in answer} == {}


@pytest.mark.parametrize("name", ["job-file", "ray-policy", "pull-policy", "sandbox-policy", "account", "binding"])
def test_objects_need_labels_of_ours(create: Create, honest: Objects, name: str) -> None:
    assert LABELS_ONLY in create(changed(honest[name], "metadata/labels", {"app": "database"}))


POD, JOB = "spec", "spec/template/spec"
HEAD, WORKER = "spec/headGroupSpec/template/spec", "spec/workerGroupSpecs/0/template/spec"
# What no Pod may have, wherever its spec is.
SHAPES: list[tuple[str, Any, str]] = [
    ("hostNetwork", True, "share no namespace of the node"),
    ("hostPID", True, "share no namespace of the node"),
    ("hostIPC", True, "share no namespace of the node"),
    ("securityContext/sysctls", [{"name": "kernel.shm_rmid_forced", "value": "1"}], "set no sysctls"),
    ("securityContext/seccompProfile", {"type": "Unconfined"}, "set no sysctls and keep the runtime's profiles"),
    ("volumes", [{"name": "v", "hostPath": {"path": "/"}}], "no folder of a node"),
    ("containers/0/securityContext", {"privileged": True, "capabilities": {"drop": ["ALL"]}}, "no privilege"),
    ("containers/0/securityContext/allowPrivilegeEscalation", True, "no privilege"),
    ("containers/0/securityContext/procMount", "Unmasked", "no privilege"),
    ("containers/0/securityContext/seccompProfile", {"type": "Unconfined"}, "no privilege"),
    ("containers/0/securityContext/capabilities/add", ["SYS_ADMIN"], "no privilege"),
    ("containers/0/securityContext/capabilities/drop", [], "no privilege"),
    ("initContainers", [{"name": "first", "image": "a:1"}], "no privilege"),
]
PLACES = [("sandbox", POD), ("shards", JOB), ("cluster", HEAD), ("cluster", WORKER)]


@pytest.mark.parametrize(("name", "place"), PLACES, ids=["sandbox", "shards", "head", "worker"])
@pytest.mark.parametrize(("path", "value", "words"), SHAPES)
def test_pod_of_another_shape_is_refused(
    create: Create, honest: Objects, name: str, place: str, path: str, value: Any, words: str
) -> None:
    body = honest[name]
    if path.startswith("volumes"):  # its mounts name other volumes
        body = changed(body, f"{place}/containers/0/volumeMounts", [])
        body = changed(body, f"{place}/initContainers", [])
    if path.endswith("procMount"):  # Kubernetes itself takes it with a user namespace alone
        body = changed(body, f"{place}/hostUsers", False)
    answer = create(changed(body, f"{place}/{path}", value))
    assert words in answer and CREATED not in answer


@pytest.mark.parametrize(("name", "place"), PLACES[1:], ids=["shards", "head", "worker"])
def test_apparmor_profile_by_annotation_is_refused(create: Create, honest: Objects, name: str, place: str) -> None:
    container = "shard" if name == "shards" else "ray-head"
    profile = {f"container.apparmor.security.beta.kubernetes.io/{container}": "unconfined"}
    metadata = f"{place.removesuffix('/spec')}/metadata/annotations"
    assert "keep the runtime's profiles" in create(changed(honest[name], metadata, profile))


@pytest.mark.parametrize(
    ("name", "path", "value", "words"),
    [
        ("preflight", "metadata/labels", {"swerl.dev/job": "demo"}, "have a role in the label swerl.dev/role"),
        ("sandbox", f"{POD}/serviceAccountName", "rich", "neither a service account nor its token"),
        ("sandbox", f"{POD}/automountServiceAccountToken", True, "neither a service account nor its token"),
        ("sandbox", f"{POD}/nodeName", "control-plane", "only Pods that pull images name a node"),
        (
            "sandbox",
            f"{POD}/volumes",
            [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
            "hold no token",
        ),
        ("sandbox", f"{POD}/volumes", [{"name": "s", "secret": {"secretName": "s"}}], "sandboxes hold no Secrets"),
        (
            "sandbox",
            f"{POD}/volumes",
            [{"name": "s", "projected": {"sources": [{"secret": {"name": "s"}}]}}],
            "sandboxes hold no Secrets",
        ),
        ("sandbox", f"{POD}/containers/0/envFrom", [{"secretRef": {"name": "s"}}], "sandboxes hold no Secrets"),
        (
            "sandbox",
            f"{POD}/containers/0/env",
            [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "sandboxes hold no Secrets",
        ),
        ("shards", f"{JOB}/serviceAccountName", "demo-driver", "with the service account nightly.eval-driver"),
        ("shards", f"{JOB}/nodeName", "control-plane", "run shards or the merge of an evaluation"),
        ("shards", "spec/template/metadata/labels", {"app": "database"}, "run shards or the merge of an evaluation"),
        ("cluster", f"{HEAD}/serviceAccountName", "rich", "has the service account demo-driver"),
        ("engines", f"{HEAD}/serviceAccountName", "demo-driver", "has the service account nightly.eval-driver"),
        ("cluster", f"{WORKER}/serviceAccountName", "demo-driver", "workers of a RayCluster have neither"),
        ("cluster", f"{WORKER}/automountServiceAccountToken", True, "workers of a RayCluster have neither"),
        ("cluster", f"{WORKER}/nodeName", "control-plane", "Ray Pods name no node"),
        ("cluster", "spec/headGroupSpec/enableIngress", True, "no address outside of the cluster"),
        ("cluster", "spec/headGroupSpec/serviceType", "LoadBalancer", "no address outside of the cluster"),
        ("cluster", "spec/headGroupSpec/headService", {"spec": {"type": "LoadBalancer"}}, "no address outside"),
        ("cluster", "spec/enableInTreeAutoscaling", True, "has no autoscaler"),
        ("ray-policy", "spec/podSelector", {}, "select Pods by a label of swerl.dev"),
        ("ray-policy", "spec/podSelector/matchLabels", {"app": "database"}, "select Pods by a label of swerl.dev"),
        ("account", "metadata/name", "rich", "only service accounts of drivers"),
        ("account", "automountServiceAccountToken", True, "only service accounts of drivers"),
        ("account", "imagePullSecrets", [{"name": "registry"}], "only service accounts of drivers"),
        ("binding", "metadata/name", "rich", "the operator binds only ClusterRole"),
        ("binding", "subjects/0/name", "default", "the operator binds only ClusterRole"),
        ("binding", "subjects/0/namespace", "kube-system", "the operator binds only ClusterRole"),
        ("binding", "subjects/0", {"kind": "Group", "name": "system:authenticated"}, "the operator binds only"),
        ("secret", "metadata/name", "database-password", "Secrets of the operator are those"),
        ("secret", "metadata/labels", {"swerl.dev/job": "other"}, "Secrets of the operator are those"),
    ],
)
def test_object_of_another_shape_is_refused(
    create: Create, honest: Objects, name: str, path: str, value: Any, words: str
) -> None:
    body = changed(honest[name], path, value)
    if path == "subjects/0":
        body["subjects"][0]["apiGroup"] = "rbac.authorization.k8s.io"
    assert words in create(body)


def test_secret_with_the_token_of_an_account_is_refused(create: Create, honest: Objects, namespace: str) -> None:
    body = copy.deepcopy(honest["secret"]) | {"type": "kubernetes.io/service-account-token"}
    body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    assert "have the type Opaque" in create(body)


def test_driver_role_alone_can_be_bound(create: Create, honest: Objects) -> None:
    answer = create(changed(honest["binding"], "roleRef/name", "cluster-admin"))
    assert "the operator binds only" in answer or "attempting to grant RBAC permissions" in answer, answer


PATHS = {
    "pod": "/api/v1",
    "configmap": "/api/v1",
    "job": "/apis/batch/v1",
    "networkpolicy": "/apis/networking.k8s.io/v1",
}


@pytest.mark.parametrize("kind", PATHS)
def test_objects_of_others_are_not_deleted(
    kubectl: Kubectl, create: Create, honest: Objects, namespace: str, release: str, kind: str
) -> None:
    base = {"pod": "sandbox", "configmap": "job-file", "networkpolicy": "ray-policy", "job": "shards"}[kind]
    body = changed(honest[base], "metadata", {"name": "of-others", "namespace": namespace, "labels": {"app": "x"}})
    if kind == "pod":
        body["spec"]["nodeName"] = "no-such-node"
    assert kubectl("create", "-f", "-", stdin=json.dumps(body)).returncode == 0
    account = f"--as=system:serviceaccount:{namespace}:{release}-operator"
    collection = f"{PATHS[kind]}/namespaces/{namespace}/{kind.replace('policy', 'policie')}s?labelSelector=app%3Dx"
    scope = (kind, "of-others", "-n", namespace)
    forms: list[tuple[str, ...]] = [("--raw", collection)]
    if kind != "configmap":  # which the operator deletes by label alone: RBAC refuses another form
        forms.append((*scope, "--wait=false"))
    for what in forms:
        done = kubectl("delete", *what, account)
        assert LABELS_ONLY in done.stderr, done.stderr
    assert kubectl("delete", *scope, "--force").returncode == 0
