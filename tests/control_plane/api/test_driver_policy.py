"""What a driver tries beyond its own job: each request is refused by the chart's policies, on the real API server."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent.cli.task_check import JOB
from swerl_agent.grading.manifests import deny_all_policy, grading_job, grading_labels
from swerl_api import API_VERSION, GradingSpec, SandboxSpec
from swerl_kube import KubeClient, KubeError

from .conftest import ROOT, Kubectl, account_kubeconfig

Json = dict[str, Any]
Create = Callable[[Json], str]
LABELS = {"swerl.dev/job": "demo"}
FOREIGN = {"swerl.dev/job": "other"}
REFUSED = "the driver of job demo may write only objects with the label swerl.dev/job=demo"


def honest_job() -> Json:
    """A Job as a Grader creates it."""
    return grading_job(
        "swegr-0123456789ab",
        "task:1",
        ["base"],
        ["swegr-0123456789ab", "swegr-0123456789ab-1"],
        settings=GradingSpec(),
        sandbox=SandboxSpec(),
        labels=grading_labels(LABELS, "grader-1", "task-1"),
        owners=[],
        overlay={"tests/test_a.py": "pass"},
        await_probe=True,
    )


def honest_policy() -> Json:
    return deny_all_policy("swegr-grader-1", LABELS, "grader-1", [])


def config_map(labels: Json) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": labels}}


def changed(body: Json, path: str, value: Any) -> Json:
    """A copy of `body` with another value at `path`; numbers are places in lists."""
    copied = copy.deepcopy(body)
    *way, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    place: Any = copied
    for key in way:
        place = place[key] if isinstance(key, int) else place.setdefault(key, {})
    place[last] = value
    return copied


@pytest.fixture(scope="module")
def create(kubectl: Kubectl, namespace: str, driver: str) -> Create:
    """Creates an object as the driver, in a dry run on the server; the answer is what the server says."""

    def create(body: Json) -> str:
        command = ("create", "-n", namespace, f"--as={driver}", "--dry-run=server", "-f", "-")
        done = kubectl(*command, stdin=json.dumps(body))
        return done.stdout + done.stderr

    deadline = time.monotonic() + 60
    while REFUSED not in (answer := create(config_map({}))):  # a new policy is in force after some seconds
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)
    return create


@pytest.mark.parametrize("body", [honest_job(), honest_policy(), config_map(LABELS)], ids=lambda body: body["kind"])
def test_driver_creates_what_it_needs(create: Create, body: Json) -> None:
    assert "created (server dry run)" in create(body)


def test_driver_posts_events_with_the_label_of_its_own_job(create: Create, namespace: str) -> None:
    involved = {"apiVersion": API_VERSION, "kind": "SweRLJob", "namespace": namespace, "name": "demo"}
    body: Json = {"apiVersion": "v1", "kind": "Event", "involvedObject": involved, "reason": "EngineReplaced"}
    own, foreign = (body | {"metadata": {"name": "demo.1", "labels": labels}} for labels in (LABELS, FOREIGN))
    assert "created (server dry run)" in create(own)
    assert REFUSED in create(foreign)


POD = "spec/template/spec"
CONTAINER = f"{POD}/containers/0"
SECURITY = f"{CONTAINER}/securityContext"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("metadata/name", "swesb-0", "name prefix swegr-"),
        ("metadata/labels", FOREIGN, REFUSED),
        ("spec/template/metadata/labels/swerl.dev~1egress", "allow", "swerl.dev/egress=none"),
        ("spec/template/metadata/labels/swerl.dev~1role", "driver", "swerl.dev/role=grading"),
        ("spec/template/metadata/labels/swerl.dev~1job", "other", "the label swerl.dev/job of its job"),
        ("spec/template/metadata/labels/ray.io~1cluster", "other-1", "only labels of swerl.dev"),
        ("spec/template/metadata/labels/app", "database", "only labels of swerl.dev"),
        (f"{POD}/serviceAccountName", "other-driver", "neither a service account nor its token"),
        (f"{POD}/automountServiceAccountToken", True, "neither a service account nor its token"),
        (f"{POD}/hostNetwork", True, "share no namespace of the node"),
        (f"{POD}/hostPID", True, "share no namespace of the node"),
        (f"{POD}/hostIPC", True, "share no namespace of the node"),
        (f"{POD}/nodeName", "control-plane", "name no node"),
        (f"{POD}/volumes/0", {"name": "payload", "hostPath": {"path": "/"}}, "hold ConfigMaps alone"),
        (f"{POD}/volumes/0", {"name": "payload", "secret": {"secretName": "s"}}, "hold ConfigMaps alone"),
        (f"{POD}/volumes/0/projected/sources/0", {"secret": {"name": "s"}}, "hold ConfigMaps alone"),
        (f"{POD}/volumes/0/projected/sources/0/configMap/name", "other-1", "those named after the Job"),
        (f"{POD}/volumes/0/projected/sources/0/configMap/name", "swegr-0123456789abc", "those named after the Job"),
        (f"{POD}/volumes/0/projected/sources/0", {"serviceAccountToken": {"path": "t"}}, "hold ConfigMaps alone"),
        (f"{POD}/initContainers", [{"name": "first", "image": "task:1"}], "have one container"),
        (f"{POD}/securityContext", {}, "no privilege"),
        (SECURITY, {"privileged": True, "capabilities": {"drop": ["ALL"]}}, "no privilege"),
        (f"{SECURITY}/allowPrivilegeEscalation", True, "no privilege"),
        (f"{SECURITY}/seccompProfile", {"type": "Unconfined"}, "no privilege"),
        (f"{SECURITY}/capabilities/add", ["SYS_ADMIN"], "no privilege"),
        (f"{SECURITY}/capabilities/drop", [], "no privilege"),
        (f"{CONTAINER}/envFrom", [{"secretRef": {"name": "s"}}], "no Secrets"),
        (f"{CONTAINER}/ports", [{"containerPort": 80, "hostPort": 80}], "no Secrets, devices or ports"),
        (f"{CONTAINER}/startupProbe", {"httpGet": {"host": "10.0.0.1", "port": 80}}, "no probes"),
        (f"{CONTAINER}/lifecycle", {"postStart": {"httpGet": {"host": "10.0.0.1", "port": 80}}}, "no probes"),
        (f"{CONTAINER}/env/0/valueFrom", {"secretKeyRef": {"name": "s", "key": "k"}}, "no Secrets"),
    ],
)
def test_job_of_another_shape_is_refused(create: Create, path: str, value: Any, words: str) -> None:
    body = honest_job()
    if path.endswith("valueFrom"):
        body = changed(body, f"{CONTAINER}/env/0", {"name": "A"})
    keys = path.split("/")
    body = changed(body, "/".join(keys), value) if "~1" not in path else _with_label(body, keys, value)
    assert words in create(body)


def _with_label(body: Json, keys: list[str], value: Any) -> Json:
    *way, label = keys
    labels = dict(body["spec"]["template"]["metadata"]["labels"]) | {label.replace("~1", "/"): value}
    return changed(body, "/".join(way), labels)


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_policy_that_allows_traffic_is_refused(create: Create, direction: str) -> None:
    assert "only NetworkPolicies that allow nothing" in create(changed(honest_policy(), f"spec/{direction}", [{}]))


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {"swerl.dev/job": "other"}}], ids=["all", "job"])
def test_policy_that_closes_other_pods_is_refused(create: Create, selector: Json) -> None:
    answer = create(changed(honest_policy(), "spec/podSelector", selector))
    assert "select grading Pods, by the label swerl.dev/grader" in answer


@pytest.mark.parametrize(
    ("api", "kind"),
    [("v1", "ConfigMap"), ("coordination.k8s.io/v1", "Lease"), ("networking.k8s.io/v1", "NetworkPolicy")],
)
def test_objects_of_others_are_not_deleted(
    kubectl: Kubectl, create: Create, namespace: str, driver: str, api: str, kind: str
) -> None:
    body: Json = {"apiVersion": api, "kind": kind, "metadata": {"name": "of-another-job", "labels": FOREIGN}}
    body |= {"spec": {"podSelector": {}}} if kind == "NetworkPolicy" else {}
    assert kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body)).returncode == 0
    done = kubectl("delete", kind.lower(), "of-another-job", "-n", namespace, f"--as={driver}")
    assert REFUSED in done.stderr, done.stderr
    assert kubectl("delete", kind.lower(), "of-another-job", "-n", namespace).returncode == 0


async def test_status_of_another_job_is_not_written(
    kubeconfig: str, kubectl: Kubectl, create: Create, namespace: str, tmp_path: Path
) -> None:
    job = next(body for body in yaml.safe_load_all((ROOT / "swerljob.yaml").read_text()) if body["kind"] == "SweRLJob")
    for name in ("demo", "other"):
        job["metadata"] = {"name": name, "namespace": namespace}
        assert kubectl("apply", "-f", "-", stdin=json.dumps(job)).returncode == 0
    token = kubectl("create", "token", "demo-driver", "-n", namespace).stdout.strip()
    (tmp_path / "kubeconfig").write_text(json.dumps(account_kubeconfig(kubeconfig, token)))

    async with KubeClient.from_environment(str(tmp_path / "kubeconfig")) as client:

        async def write(name: str) -> None:
            await client.patch(API_VERSION, "swerljobs", namespace, name, {"status": {"step": 3}}, subresource="status")

        await write("demo")
        with pytest.raises(KubeError, match=REFUSED):
            await write("other")
    kubectl("delete", "swerljob", "demo", "other", "-n", namespace)


def test_loader_of_the_example_is_held_to_its_job(
    kubectl: Kubectl, create: Create, namespace: str, release: str
) -> None:
    account, binding, _ = yaml.safe_load_all((ROOT / "examples/swe-gym-qwen3-4b/loader.yaml").read_text())
    binding["roleRef"]["name"] = f"{release}-driver"
    binding["subjects"][0]["namespace"] = namespace
    for body in (account, binding):
        assert kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(body)).returncode == 0
    user = f"--as=system:serviceaccount:{namespace}:{account['metadata']['name']}"
    dry_run = ("create", "-n", namespace, user, "--dry-run=server", "-f", "-")
    own, none = (kubectl(*dry_run, stdin=json.dumps(config_map(labels))) for labels in ({"swerl.dev/job": JOB}, {}))
    assert own.returncode == 0, own.stderr
    assert f"the driver of job {JOB} may write only" in none.stderr


def test_name_of_a_sandbox_needs_its_label(kubectl: Kubectl, create: Create, namespace: str) -> None:
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "swesb-mine-0", "namespace": namespace}}
    body["spec"] = {"containers": [{"name": "c", "image": "none.invalid/none"}]}
    dry_run = ("create", "--dry-run=server", "-f", "-")
    assert "names that begin with swesb-" in kubectl(*dry_run, stdin=json.dumps(body)).stderr
    generated = body | {"metadata": {"generateName": "swesb-mine-", "namespace": namespace}}
    assert "names that begin with swesb-" in kubectl(*dry_run, stdin=json.dumps(generated)).stderr
    body["metadata"]["labels"] = {"swerl.dev/role": "sandbox"}
    assert kubectl(*dry_run, stdin=json.dumps(body)).returncode == 0
