"""CPU-seconds from a metrics API, whose figures the test puts there, to the status of groups."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from swerl_kube import Unavailable
from swerl_operator.sandboxes.api import SandboxApi
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.parsed import parse_group
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.sandboxes.store import GroupStore
from swerl_operator.sandboxes.usage import UsageSampler

from tests.control_plane.operator_process import Operator

pytestmark = pytest.mark.alone
Body = dict[str, Any]
CRDS, GROUP = "apiextensions.k8s.io/v1", "metrics.k8s.io"
WITH_SHORT_TIMES = """
import runpy
from dataclasses import replace
from swerl_operator.sandboxes.settings import SandboxSettings
from_options = SandboxSettings.from_options
times = dict(usage_period=1.0, usage_recheck=1.0, usage_delay=3.0, counts_delay=1.0)
SandboxSettings.from_options = lambda options: replace(from_options(options), **times)
runpy.run_module("swerl_operator", run_name="__main__")
"""


@pytest.fixture(scope="module")
def operator(
    kubeconfig: str, namespace: str, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator with periods of seconds instead of minutes."""
    log = tmp_path_factory.mktemp("operator") / "log"
    options = {"namespaces": namespace, "lease_namespace": namespace, "identity": "test"}
    with Operator(kubeconfig, log, ("-c", WITH_SHORT_TIMES), **options) as running:
        running.until_leading()
        yield running


@pytest.fixture
async def metrics_api(user: Any) -> AsyncIterator[Any]:
    """Call it to have the cluster serve a metrics API; gone after the test. The local cluster has none of its own."""

    async def services() -> list[Body]:
        found = await user.api.list("apiregistration.k8s.io/v1", "apiservices", None)
        return [pod for pod in found if pod["spec"].get("group") == GROUP]

    assert not await services(), "a cluster with metrics of its own"
    names = {"plural": "pods", "kind": "PodMetrics", "listKind": "PodMetricsList", "singular": "podmetrics"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
    body = {
        "apiVersion": CRDS,
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"pods.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, stands for the metrics API in a test"},
        },
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }

    async def served() -> bool:
        try:
            return await user.api.find(f"{GROUP}/v1beta1", "pods", user.namespace, "") is not None
        except Unavailable:  # its storage is being made
            return False

    async def serve() -> None:
        await user.api.create("customresourcedefinitions", body)
        await user.until(served, bool, 30)

    yield serve
    await user.api.delete(CRDS, "customresourcedefinitions", None, f"pods.{GROUP}")
    await user.until(services, lambda found: not found, 60)


async def report(user: Any, group: str, *cpu: str) -> None:
    """Have the metrics API say how much CPU each Pod of the group used over the same 15 s."""
    for ordinal, cores in enumerate(cpu):
        body = {
            "apiVersion": f"{GROUP}/v1beta1",
            "kind": "PodMetrics",
            "metadata": {
                "name": f"swesb-{group}-{ordinal}",
                "namespace": user.namespace,
                "labels": {"swerl.dev/sandbox": group},
            },
            "timestamp": "2026-01-01T00:00:15Z",
            "window": "15s",
            "containers": [{"name": "sandbox", "usage": {"cpu": cores, "memory": "1Mi"}}],
        }
        await user.api.create("pods", body)


async def test_cpu_seconds_are_summed_up_with_a_metrics_api(user: Any, metrics_api: Any) -> None:
    store, registry = GroupStore(), CollectorRegistry()
    metrics = SandboxMetrics(registry, store)
    requests: list[tuple[str, str]] = []
    usage = UsageSampler(
        SandboxApi(user.api, metrics), store, metrics, SandboxSettings(), [user.namespace], requests.append
    )
    record = store.put_group(parse_group(await user.declare("busy", replicas=2)))
    assert record is not None
    assert await usage.sample() is False, "no metrics API: nothing to read, and no error"
    await metrics_api()
    await report(user, "busy", "500m", "1500000000n")
    assert await usage.sample() is True
    assert record.cpu_seconds == pytest.approx(30.0) and set(requests) == {(user.namespace, "busy")}
    assert registry.get_sample_value("swerl_sandbox_cpu_seconds_total") == pytest.approx(30.0)
    await user.delete("busy")


async def test_cpu_seconds_of_a_healthy_group_cost_one_write(user: Any, operator: Operator, metrics_api: Any) -> None:
    groups = {"four": ("500m", "1", "1", "1500m"), "single": ("2",)}
    for name, cpu in groups.items():
        await user.declare(name, replicas=len(cpu))
    for name in groups:
        await user.phase(name, "Ready")
    written = 'swerl_sandbox_api_writes_total{verb="patch_status"}'
    before = operator.metric(written)
    await metrics_api()
    for name, cpu in groups.items():
        await report(user, name, *cpu)

    async def reported_cpu(name: str) -> float:
        return float((await user.status(name)).get("cpuSeconds") or 0.0)

    assert await user.until(lambda: reported_cpu("single"), bool, 30) == pytest.approx(30.0)
    assert await user.until(lambda: reported_cpu("four"), bool, 30) == pytest.approx(60.0)
    assert operator.metric(written) - before == len(groups)

    operator.kill(signal.SIGKILL)
    operator.start()
    operator.until_leading()
    counted = "swerl_sandbox_cpu_seconds_total"  # a new process takes the sample as it did the first
    await user.until(lambda: metric(operator, counted), lambda value: value >= 90.0, 30)
    await user.release("swesb-four-3")
    cpu_seconds = await user.until(lambda: reported_cpu("four"), lambda value: value > 60.0, 30)
    assert cpu_seconds == pytest.approx(120.0), "a new process continues from the reported value"
    for name in groups:
        await user.delete(name)


async def metric(operator: Operator, name: str) -> float:
    return operator.metric(name)
