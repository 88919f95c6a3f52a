"""`swerl doctor` finds faults that a test plants in the real cluster, and names the remedy of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Kubectl

Json = dict[str, Any]
Doctor = Callable[..., list[Json]]
IMAGE = "registry.swerl:5000/swe-rl/sandbox-base:latest"
NODE_STATUS = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "10"}, "conditions": []}


@pytest.fixture
def create_object(kubectl: Kubectl) -> Iterator[Callable[..., None]]:
    """Creates objects that are deleted with the test."""
    planted: list[str] = []

    def create(*bodies: Json) -> None:
        planted.extend(json.dumps(body) for body in bodies)
        for body in planted[-len(bodies) :]:
            done = kubectl("create", "-f", "-", stdin=body)
            assert done.returncode == 0, done.stderr

    yield create
    for body in reversed(planted):
        kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=body)


@pytest.fixture
def examined_namespace(kubectl: Kubectl, create_object: Callable[..., None]) -> str:
    """A namespace of the test's own."""
    name = f"t-doctor-{os.urandom(3).hex()}"
    create_object({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    done = kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
    assert done.returncode == 0, done.stderr
    return name


@pytest.fixture
def doctor(kubeconfig: str, examined_namespace: str) -> Doctor:
    """Findings of `swerl doctor` in the namespace; its exit code is 1 when one failed."""

    def run(*options: str, kubeconfig: str = kubeconfig) -> list[Json]:
        command = [sys.executable, "-m", "swerl_agent.cli", "doctor", "--output", "json", "--kubeconfig", kubeconfig]
        done = subprocess.run(
            [*command, "--namespace", examined_namespace, *options],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        found: list[Json] = json.loads(done.stdout)["findings"]
        assert (done.returncode == 1) == any(finding["status"] == "failed" for finding in found)
        return found

    return run


def found(findings: list[Json], check: str, *texts: str, status: str = "failed") -> bool:
    """Whether a finding of the check has this status, the words in its message, and a remedy."""
    return any(
        (finding["check"], finding["status"]) == (check, status)
        and finding["remedy"]
        and all(word in finding["message"] for word in texts)
        for finding in findings
    )


def statuses(findings: list[Json], check: str) -> set[str]:
    return {finding["status"] for finding in findings if finding["check"] == check}


def deployment(examined_namespace: str, name: str, image: str, labels: Json | None = None) -> Json:
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "operator", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": examined_namespace, "labels": labels or {}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": pod},
    }


def node(name: str, labels: Json, *, gpus: int = 0, taints: list[Json] | None = None) -> Json:
    status = NODE_STATUS | {"allocatable": {**NODE_STATUS["allocatable"], "nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints or []},
        "status": status | {"capacity": status["allocatable"]},
    }


def policy(examined_namespace: str, name: str, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": examined_namespace}
    body = {"podSelector": {}, "policyTypes": ["Egress"], **spec}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": body}


def planted_objects(examined_namespace: str) -> list[Json]:
    """Objects with one fault each; nodes, RuntimeClass and FlowSchema have the namespace's name."""
    version = {"app.kubernetes.io/name": "swe-rl", "app.kubernetes.io/version": "0.0.9"}
    accounts = {"kind": "ServiceAccount", "serviceAccount": {"namespace": examined_namespace, "name": "*"}}
    resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    flow = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1"}
    starved = {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}}
    metadata = {"name": "starved-claim", "namespace": examined_namespace}
    return [
        deployment(examined_namespace, "kuberay-operator", "quay.io/kuberay/operator:v1.3.2"),
        deployment(examined_namespace, "old-operator", "swe-rl/operator:0.0.9", version),
        node(f"{examined_namespace}-1", {"nvidia.com/gpu.present": "true"}),
        node(
            f"{examined_namespace}-2",
            {"nvidia.com/cuda.driver.major": "535"},
            gpus=8,
            taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}],
        ),
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": examined_namespace},
            "handler": "none",
            "scheduling": {"nodeSelector": {"kata": examined_namespace}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "no-such",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "no-pods", "namespace": examined_namespace},
            "spec": {"hard": {"pods": "0"}},
        },
        flow
        | {
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": examined_namespace},
            "spec": {"type": "Limited", "limited": starved},
        },
        flow
        | {
            "kind": "FlowSchema",
            "metadata": {"name": examined_namespace},
            "spec": {
                "matchingPrecedence": 5000,
                "priorityLevelConfiguration": {"name": examined_namespace},
                "rules": [{"subjects": [accounts], "resourceRules": [resources]}],
            },
        },
    ]


@pytest.mark.alone  # nodes and FlowSchemas are for the whole cluster
def test_planted_faults_in_objects_are_found(
    doctor: Doctor, examined_namespace: str, kubectl: Kubectl, create_object: Callable[..., None]
) -> None:
    before = doctor("--no-pods", "--image", IMAGE)
    assert statuses(before, "crds") == statuses(before, "fairness") == statuses(before, "pod-security") == {"ok"}
    assert statuses(before, "quotas") == statuses(before, "claims") == set()
    assert statuses(before, "gpus") == {"warning"} and statuses(before, "kuberay") == {"ok"}
    create_object(*planted_objects(examined_namespace))
    kubectl(
        "wait",
        "--for=jsonpath={.status.hard.pods}=0",
        "resourcequota/no-pods",
        "-n",
        examined_namespace,
        "--timeout=30s",
    )
    assert (
        kubectl("label", "namespace", examined_namespace, "pod-security.kubernetes.io/enforce=restricted").returncode
        == 0
    )
    findings_after = doctor("--no-pods", "--image", IMAGE, "--runtime-class", "no-such-runtime")
    assert found(findings_after, "kuberay", "v1.3.2", "1.6 or later")
    assert found(findings_after, "operator", "version 0.0.9")
    assert found(findings_after, "gpus", f"{examined_namespace}-1", "driver or the device plugin does not run")
    assert found(findings_after, "gpus", f"{examined_namespace}-2", "taint team=a:NoSchedule", status="warning")
    assert found(findings_after, "gpus", f"{examined_namespace}-2", "driver 535")
    assert found(findings_after, "runtime-classes", "'no-such-runtime' does not exist")
    assert found(findings_after, "runtime-classes", f"{examined_namespace}: no node has its labels", status="warning")
    assert found(findings_after, "claims", "starved-claim", "StorageClass 'no-such' does not exist")
    assert found(findings_after, "quotas", "no-pods has nothing left of pods 0 of 0")
    assert found(findings_after, "fairness", f"FlowSchema {examined_namespace}", "0 of ")
    assert found(findings_after, "pod-security", "restricted") and found(findings_after, "admission", "is refused")


def test_policy_that_opens_sandboxes_is_named(
    doctor: Doctor, examined_namespace: str, create_object: Callable[..., None]
) -> None:
    create_object(policy(examined_namespace, "allow-everything", egress=[{}]))
    findings = doctor("--image", IMAGE)
    assert found(findings, "network-policy", "the sandbox reached")
    assert any("NetworkPolicy allow-everything" in finding["remedy"] for finding in findings)
    assert statuses(findings, "exec") == statuses(findings, "dns") == {"ok"}, findings


def test_policy_that_hides_the_name_server_is_named(
    doctor: Doctor, examined_namespace: str, kubectl: Kubectl, create_object: Callable[..., None]
) -> None:
    create_object(policy(examined_namespace, "only-web", egress=[{"ports": [{"protocol": "TCP", "port": 443}]}]))
    findings = doctor("--image", IMAGE)
    assert found(findings, "dns", "reaches no name server")
    assert any("NetworkPolicy only-web" in finding["remedy"] for finding in findings)
    assert kubectl("get", "pods,networkpolicies", "-n", examined_namespace, "-o", "name").stdout.split() == [
        "networkpolicy.networking.k8s.io/only-web"
    ], "the doctor's own objects are removed"


def test_missing_runtime_on_the_nodes_is_found(
    doctor: Doctor, examined_namespace: str, create_object: Callable[..., None]
) -> None:
    metadata = {"name": examined_namespace}
    create_object(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": metadata, "handler": "no-such-handler"}
    )
    findings = doctor("--image", IMAGE, "--runtime-class", examined_namespace)
    assert found(findings, "runtime-classes", "no runtime for", "no-such-handler")


def test_image_that_the_nodes_cannot_pull_is_found(doctor: Doctor) -> None:
    missing = "registry.swerl:5000/swe-rl/no-such-image:1"
    assert found(doctor("--image", missing), "registry", f"the nodes cannot pull {missing}")


def test_limit_range_that_refuses_sandboxes_is_quoted(
    doctor: Doctor, examined_namespace: str, create_object: Callable[..., None]
) -> None:
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]
    metadata = {"name": "ratio", "namespace": examined_namespace}
    create_object({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": limits}})
    assert found(doctor("--no-pods", "--image", IMAGE), "admission", "cpu max limit to request ratio")


def test_account_without_exec_is_found(
    doctor: Doctor,
    examined_namespace: str,
    kubeconfig: str,
    kubectl: Kubectl,
    create_object: Callable[..., None],
    tmp_path: Path,
) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list", "create", "delete"]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "create", "delete"]},
    ]
    metadata, rbac = {"name": "visitor", "namespace": examined_namespace}, "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "visitor", "namespace": examined_namespace}
    role = {"kind": "Role", "name": "visitor", "apiGroup": rbac}
    create_object(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [subject],
        },
    )
    admin = yaml.safe_load(Path(kubeconfig).read_text())
    token = kubectl("create", "token", "visitor", "-n", examined_namespace).stdout.strip()
    user = admin | {"users": [{"name": admin["users"][0]["name"], "user": {"token": token}}]}
    (tmp_path / "kubeconfig").write_text(json.dumps(user))
    findings = doctor("--image", IMAGE, kubeconfig=str(tmp_path / "kubeconfig"))
    assert found(findings, "permissions", "create pods/exec")
    assert found(findings, "exec", "forbidden", "pods/exec"), findings
    assert found(findings, "nodes", "cannot list resource", status="unknown")
