"""Probes with real Pods: one without and one with a NetworkPolicy; what each reaches, and how fast commands run.

Guarantees: Pods and policy are deleted at the end, and the kubelet ends the Pods after `LIFETIME_SECONDS` in any case.
A Pod that does not start is a finding with the reason that the kubelet or the scheduler gives.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from swerl_api.images import PULL_PAUSES, PULL_REASONS, START_REASONS
from swerl_api.isolation import ProbeTarget
from swerl_api.names import EGRESS_LABEL, SANDBOX_CONTAINER
from swerl_api.pod_metadata import without_mesh
from swerl_api.swesandbox import CAPABILITIES
from swerl_kube import ApiError, Forbidden, KubeClient, KubeError, newest_event

from swerl_agent.sandbox import HandshakeFailed, NotIsolated, PodConnector, SandboxLost, Session, check_isolation
from swerl_agent.sandbox.isolation import api_addresses, reached_addresses
from swerl_agent.sandbox.pod import ready, waiting_reason

from .finding import Finding
from .namespace import opening_policies, restricting_policies

Json = dict[str, Any]
LIFETIME_SECONDS = 600
COMMANDS = 20  # whose time is measured
SLOW_COMMAND = 0.3  # seconds
PROBE_LABEL = "swerl.dev/doctor"
FINAL_WAITING_REASONS = (PULL_REASONS - {"ErrImagePull"}) | PULL_PAUSES | START_REASONS
NETWORKING = "networking.k8s.io/v1"


@dataclass(frozen=True)
class ProbeSettings:
    """How the Pods are made."""

    image: str
    runtime_class: str | None = None
    pull_secrets: Sequence[str] = ()
    start_seconds: float = 120.0  # for a Pod to become ready


def probe_pod(name: str, settings: ProbeSettings, labels: Json) -> Json:
    """A Pod in the shape of a sandbox."""
    command = ["sh", "-c", f"trap 'exit 0' TERM INT; sleep {LIFETIME_SECONDS} & wait"]
    amounts = {"cpu": "50m", "memory": "64Mi"}
    container = {
        "name": SANDBOX_CONTAINER,
        "image": settings.image,
        "command": command,
        "resources": {"requests": amounts, "limits": {"cpu": "1", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": [*CAPABILITIES]},
        },
    }
    spec = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LIFETIME_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "imagePullSecrets": [{"name": secret} for secret in settings.pull_secrets],
        "containers": [container],
    }
    spec |= {"runtimeClassName": settings.runtime_class} if settings.runtime_class else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": without_mesh({"name": name, "labels": labels}),
        "spec": spec,
    }


async def admission(client: KubeClient, namespace: str, settings: ProbeSettings) -> list[Finding]:
    """Whether the API server admits a Pod in the shape of a sandbox; a dry run."""
    body = probe_pod(f"swerl-doctor-{secrets.token_hex(3)}", settings, {PROBE_LABEL: "dry-run"})
    path = f"/api/v1/namespaces/{namespace}/pods"
    try:
        await client.request("POST", path, body=body, query={"dryRun": "All"})
    except ApiError as error:
        remedy = "change the quota, LimitRange, Pod Security level, webhook or RBAC role that the message names"
        text = f"a Pod in the shape of a sandbox is refused: {error.message}"
        return [Finding("admission", "failed", text, remedy)]
    return [Finding("admission", "ok", f"namespace {namespace} admits Pods in the shape of a sandbox")]


async def probes(client: KubeClient, namespace: str, settings: ProbeSettings) -> list[Finding]:
    """Start-up, exec, DNS and NetworkPolicy."""
    probe = secrets.token_hex(3)
    found: list[Finding] = []
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(_policy(client, namespace, probe))
            opened, closed = [
                await stack.enter_async_context(_pod(client, namespace, probe, egress, settings))
                for egress in ("allow", "none")
            ]
            pods = await asyncio.gather(*(_started(client, pod, settings) for pod in (opened, closed)))
        except ApiError as error:
            remedy = "see the finding `admission`; RBAC needs create and delete on pods and networkpolicies"
            return [Finding("pods", "failed", f"the probe's Pods cannot be created: {error.message}", remedy)]
        except _NotStarted as error:
            return [error.finding]
        seconds = [f"{one[1]:.1f} s" for one in pods]
        found.append(Finding("pods", "ok", f"two Pods of {settings.image} were ready after {' and '.join(seconds)}"))
        policies = await _policies(client, namespace)
        try:
            found += await _probe(client, [pod for pod, _ in pods], policies)
        except (HandshakeFailed, SandboxLost) as error:
            remedy = (
                "the account needs create and get on pods/exec and get on pods; proxies before the API server must "
                "pass WebSockets"
            )
            found.append(Finding("exec", "failed", str(error), remedy))
    return found


async def _probe(client: KubeClient, pods: Sequence[Json], policies: Sequence[Json]) -> list[Finding]:
    """`pods`: one without, one with a NetworkPolicy that denies everything."""
    targets = await api_addresses(client)
    opened, closed = pods
    found: list[Finding] = []
    async with Session(_connector(client, opened)) as session:
        found.append(await _latency(session))
        try:
            answers = (await reached_addresses(session, targets)).splitlines()
        except NotIsolated as error:
            remedy = "give --image an image with bash, python3 or nc"
            return [*found, Finding("network-policy", "unknown", str(error), remedy)]
    found.append(dns(answers, policies, opened["metadata"]["labels"]))
    async with Session(_connector(client, closed)) as session:
        found.append(await _enforcement(session, targets, answers, policies, closed["metadata"]["labels"]))
    return found


async def _latency(session: Session) -> Finding:
    clock = time.monotonic
    started = clock()
    await session.run("true", timeout=60, login=False)
    opened = clock() - started
    times = []
    for _ in range(COMMANDS):
        started = clock()
        await session.run("true", timeout=60, login=False)
        times.append(clock() - started)
    median = statistics.median(times)
    text = f"a command takes {median * 1000:.0f} ms (median of {COMMANDS}), a session opens in {opened * 1000:.0f} ms"
    if median > SLOW_COMMAND:
        remedy = "run drivers in the cluster or near its API server; look for proxies and a busy API server or node"
        return Finding("exec", "warning", text, remedy)
    return Finding("exec", "ok", text)


def dns(answers: Sequence[str], policies: Sequence[Json], labels: Json) -> Finding:
    """Whether a Pod that no policy of ours limits reaches a name server; `answers`: what it reached."""
    if any(answer.endswith(" 53") for answer in answers):
        return Finding("dns", "ok", "Pods reach their name server")
    text = "a Pod reaches no name server: Ray Pods cannot find their head"
    if limiting := restricting_policies(policies, labels, "Egress"):
        remedy = f"allow port 53 in NetworkPolicy {', '.join(limiting)} of this namespace"
    else:
        remedy = "kubectl -n kube-system get pods -l k8s-app=kube-dns, and the nodes' firewalls"
    return Finding("dns", "failed", text, remedy)


async def _enforcement(
    session: Session, targets: Sequence[ProbeTarget], answers: Sequence[str], policies: Sequence[Json], labels: Json
) -> Finding:
    try:
        await check_isolation(session, targets)
    except NotIsolated as error:
        text = f"with a NetworkPolicy that denies everything, {error}"
        if opening := opening_policies(policies, labels):
            remedy = f"exclude Pods with label {EGRESS_LABEL} from NetworkPolicy {', '.join(opening)}, which opens them"
        else:
            remedy = "install an engine that enforces it: GKE Dataplane V2, EKS network policy, Cilium, Calico"
        return Finding("network-policy", "failed", text, remedy)
    if not answers:
        text = "a Pod without NetworkPolicy reaches nothing either, so that enforcement cannot be shown"
        return Finding("network-policy", "unknown", text, "see the finding `dns`")
    return Finding("network-policy", "ok", f"enforced: closed to {len(answers)} addresses that another Pod reaches")


class _NotStarted(Exception):
    """A Pod does not become ready."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


async def _started(client: KubeClient, pod: Json, settings: ProbeSettings) -> tuple[Json, float]:
    """The ready Pod, and the seconds that took; raises _NotStarted."""
    metadata = pod["metadata"]
    key, started = (metadata["namespace"], metadata["name"]), time.monotonic()
    while True:
        current = await client.get("v1", "pods", *key)
        if ready(current):
            return current, time.monotonic() - started
        reason, message = waiting_reason(current)
        event = await _newest_warning(client, *key)
        late = time.monotonic() - started > settings.start_seconds
        if (
            late
            or reason in FINAL_WAITING_REASONS
            or "no runtime for" in event
            or (reason in PULL_REASONS and "not found" in message)
        ):
            raise _NotStarted(not_started(settings, reason, message, event))
        await asyncio.sleep(0.5)


def not_started(settings: ProbeSettings, reason: str, message: str, event: str) -> Finding:
    """Why a probe Pod does not start; `event`: its newest warning."""
    if reason in PULL_REASONS:
        text = f"the nodes cannot pull {settings.image}: {message or reason}"
        remedy = (
            "check reference, registry and its limits; give --pull-secret; copy it to your registry (registryRewrite)"
        )
        return Finding("registry", "failed", text, remedy)
    text = f"a Pod of {settings.image} does not start: {': '.join(filter(None, (reason, message, event)))}"
    if settings.runtime_class and "runtime" in event:
        remedy = f"install the handler of RuntimeClass {settings.runtime_class} on the nodes, or use another"
        return Finding("runtime-classes", "failed", text, remedy)
    return Finding("pods", "failed", text, "kubectl describe pod, kubectl get nodes; give --image another image")


async def _newest_warning(client: KubeClient, namespace: str, pod: str) -> str:
    """The message of the Pod's newest event of type Warning; empty when there is none, or it may not be read."""
    fields = f"involvedObject.kind=Pod,involvedObject.name={pod},type=Warning"
    try:
        return await newest_event(client, namespace, fields) or ""
    except KubeError:
        return ""


async def _policies(client: KubeClient, namespace: str) -> list[Json]:
    try:
        return await client.list(NETWORKING, "networkpolicies", namespace)
    except Forbidden:
        return []


@asynccontextmanager
async def _policy(client: KubeClient, namespace: str, probe: str) -> AsyncIterator[None]:
    """A NetworkPolicy that denies everything to the closed Pod."""
    name = f"swerl-doctor-{probe}"
    selector = {"matchLabels": {PROBE_LABEL: probe, EGRESS_LABEL: "none"}}
    body = {
        "apiVersion": NETWORKING,
        "kind": "NetworkPolicy",
        "metadata": {"name": name},
        "spec": {"podSelector": selector, "policyTypes": ["Ingress", "Egress"]},
    }
    await client.create("networkpolicies", body, namespace=namespace)
    try:
        yield
    finally:
        await client.delete(NETWORKING, "networkpolicies", namespace, name)


@asynccontextmanager
async def _pod(
    client: KubeClient, namespace: str, probe: str, egress: str, settings: ProbeSettings
) -> AsyncIterator[Json]:
    body = probe_pod(f"swerl-doctor-{probe}-{egress}", settings, {PROBE_LABEL: probe, EGRESS_LABEL: egress})
    created = await client.create("pods", body, namespace=namespace)
    try:
        yield created
    finally:
        await client.delete("v1", "pods", namespace, created["metadata"]["name"], grace_seconds=0)


def _connector(client: KubeClient, pod: Json) -> PodConnector:
    metadata = pod["metadata"]
    return PodConnector(client, metadata["namespace"], metadata["name"], uid=metadata["uid"])
