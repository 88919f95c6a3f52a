"""A container that a webhook puts before ours, as meshes do: sandboxes and gradings work beside it, or it is named."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.grading import Grader
from swerl_agent.sandbox import NotReady, SandboxGroup
from swerl_agent.tasks import Task
from swerl_api import API_VERSION
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import KubeClient

from cluster import layout
from tests.conftest import kubectl
from tests.control_plane.exec.conftest import IMAGE, until
from tests.control_plane.injecting_webhook import UNREADY, injecting_webhook
from tests.control_plane.operator_process import Operator

Json = dict[str, Any]
Declare = Callable[..., Awaitable[SandboxGroup]]
JOB = {"swerl.dev/job": "sidecars"}
SIDECAR = {
    "name": "proxy",
    "image": IMAGE,
    "command": ["sleep", "3600"],
    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
}
SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}


@pytest.fixture(scope="module")
def injected(kubeconfig: str, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every sandbox and grading Pod of the namespace gets SIDECAR as its first container."""
    running = layout.find(layout.cluster_name(), layout.swerl_home())
    assert running is not None, "the local cluster runs"
    node = Path("/run/netns") / running.label
    with injecting_webhook(node, tmp_path_factory.mktemp("webhook"), SIDECAR) as client_config:
        kubectl(kubeconfig, "apply", "-f", "-", stdin=json.dumps(_configuration(namespace, client_config)))
        _wait_until_injected(kubeconfig, namespace)
        yield
        kubectl(kubeconfig, "delete", "mutatingwebhookconfiguration", namespace)


def _wait_until_injected(kubeconfig: str, namespace: str) -> None:
    probe = ("run", "probe", "-n", namespace, f"--image={IMAGE}", "--labels=swerl.dev/role=sandbox")
    deadline = time.monotonic() + 60
    while "proxy" not in kubectl(kubeconfig, *probe, "--dry-run=server", "-o", "jsonpath={.spec.containers[*].name}"):
        assert time.monotonic() < deadline, "the API server does not call the webhook"
        time.sleep(0.5)


def _configuration(namespace: str, client_config: Json) -> Json:
    roles = {"key": "swerl.dev/role", "operator": "In", "values": ["sandbox", "grading"]}
    webhook = {
        "name": "sidecar.test.swerl.dev",
        "clientConfig": client_config,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchExpressions": [roles]},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [webhook],
    }


@pytest.fixture
async def declare(client: KubeClient, namespace: str, operator: Operator, injected: None) -> AsyncIterator[Declare]:
    """Declares groups of one sandbox that are deleted with the test."""
    groups: list[SandboxGroup] = []

    async def declare(name: str, labels: dict[str, str] | None = None, **spec: Any) -> SandboxGroup:
        fields = {"image": IMAGE, "workdir": "/", "scrubGit": False, "resources": SMALL} | spec
        group = await SandboxGroup.declare(
            client,
            name=f"{name}-{os.urandom(2).hex()}",
            spec=SweSandboxSpec.model_validate(fields),
            labels=JOB | (labels or {}),
            namespace=namespace,
        )
        groups.append(group)
        return group

    yield declare
    for group in groups:
        await group.delete()


async def condition(client: KubeClient, namespace: str, group: SandboxGroup, type: str, reason: str) -> Json:
    """The condition of the group, once it has the reason."""

    async def found() -> Json | None:
        status = (await client.get(API_VERSION, "swesandboxes", namespace, group.name)).get("status") or {}
        named = [one for one in status.get("conditions", []) if (one["type"], one["reason"]) == (type, reason)]
        return named[0] if named else None

    return await until(found, f"{group.name} is {reason}", 90)


async def test_commands_run_in_the_sandbox_beside_a_sidecar(
    declare: Declare, client: KubeClient, namespace: str
) -> None:
    group = await declare("beside")
    session = await group.claim(0, timeout=120)
    result = await session.run("test -d /proc && echo $((6 * 7))", timeout=60)
    assert (result.stdout, result.exit_code) == (b"42\n", 0)
    pod = await client.get("v1", "pods", namespace, group.pod_name(0))
    assert [container["name"] for container in pod["spec"]["containers"]] == ["proxy", "sandbox"]


async def test_fix_is_resolved_beside_a_sidecar(
    client: KubeClient, namespace: str, grader: Grader, task: Task, injected: None
) -> None:
    seen: set[tuple[str, ...]] = set()

    async def watch() -> None:
        async for event in client.watch("v1", "pods", namespace, labels="swerl.dev/role=grading"):
            seen.add(tuple(container["name"] for container in event.object["spec"]["containers"]))

    watching = asyncio.create_task(watch())
    verdict = await grader.grade(task, task.ground_truth.patch)
    watching.cancel()
    assert verdict.resolved, verdict
    assert seen == {("proxy", "grading")}


async def test_sidecar_that_never_becomes_ready_is_named(declare: Declare, client: KubeClient, namespace: str) -> None:
    group = await declare("held", labels={UNREADY: "true"})
    found = await condition(client, namespace, group, "Ready", "SidecarNotReady")
    assert found["status"] == "False"
    assert f"{group.pod_name(0)}: container proxy, which is not ours, is not ready" in found["message"]
    with pytest.raises(NotReady, match="container proxy: its readiness probe does not pass"):
        await group.claim(0, timeout=1)


async def test_sandbox_that_ends_beside_a_sidecar_is_lost(declare: Declare, client: KubeClient, namespace: str) -> None:
    group = await declare("ending", command=["sh", "-c", "sleep 2; exit 3"])
    found = await condition(client, namespace, group, "Finished", "ContainerExited")
    assert "exit code 3" in found["message"]
