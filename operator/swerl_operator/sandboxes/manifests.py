"""The manifest of a sandbox Pod.

Guarantees:

* No service-account token, no service environment, no privilege escalation.
* Only the capabilities that root needs to install packages and use git, and the runtime's seccomp profile.
* Limits for cpu, memory and ephemeral storage.
* The kubelet stops the Pod after its lifetime, even without an operator.
* The name is a pure function of group and ordinal.
"""

from __future__ import annotations

import math
from typing import Any

from swerl_api import names
from swerl_api.base import Egress, Resources
from swerl_api.pod_metadata import without_mesh
from swerl_api.quantity import parse_quantity
from swerl_api.swesandbox import CAPABILITIES
from swerl_plan.nodes import toleration_manifests
from swerl_plan.pods import sandbox_requests

from ..manifest import owner_reference
from .kueue import queue_annotations, queue_labels
from .parsed import ParsedGroup
from .settings import SandboxSettings

UNREACHABLE_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

# Pagers and progress bars only cost tokens.
QUIET_ENVIRONMENT = {"PAGER": "cat", "MANPAGER": "cat", "LESS": "-R", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1"}

EXTRA_SLEEP = (
    60  # seconds process 1 sleeps beyond the lifetime, so that the kubelet's deadline, not its exit, ends the Pod
)


def sandbox_pod(group: ParsedGroup, ordinal: int, settings: SandboxSettings) -> dict[str, Any]:
    """Manifest of Pod `ordinal` of `group`."""
    spec = group.spec
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": spec.lifetime_seconds,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(group, settings)],
        **_dns(spec.egress, settings),
    }
    optional = {
        "runtimeClassName": spec.runtime_class_name,
        "hostUsers": settings.host_users if spec.host_users is None else spec.host_users,
        "priorityClassName": settings.priority_class_name,
        "nodeSelector": spec.node_selector or None,
        "tolerations": _tolerations(group, settings),
        "imagePullSecrets": [{"name": name} for name in spec.image_pull_secrets] or None,
    }
    pod |= {name: value for name, value in optional.items() if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": without_mesh(
            {
                "name": names.sandbox_pod_name(group.key[1], ordinal),
                "namespace": group.key[0],
                "labels": pod_labels(group),
                "ownerReferences": [owner_reference("SweSandbox", group.key[1], group.uid)],
                "annotations": queue_annotations(group),
            }
        ),
        "spec": pod | settings.pod_overrides,
    }


def pod_labels(group: ParsedGroup) -> dict[str, str]:
    """The group's own swerl labels and queue, and the labels of a sandbox Pod, which cannot be overridden."""
    own_labels = {name: value for name, value in group.labels.items() if name.startswith("swerl.dev/")}
    return (own_labels | queue_labels(group)) | {
        names.ROLE_LABEL: names.ROLE_SANDBOX,
        names.SANDBOX_LABEL: group.key[1],
        names.EGRESS_LABEL: group.spec.egress,
    }


def _tolerations(group: ParsedGroup, settings: SandboxSettings) -> list[dict[str, Any]]:
    """Those of the spec, and how long to wait for an unreachable node: the default of Kubernetes is five minutes."""
    requested = toleration_manifests(group.spec.tolerations)
    keys = {toleration.get("key") for toleration in requested}
    limit = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": settings.node_timeout}
    return requested + [{"key": key, **limit} for key in UNREACHABLE_NODE if keys.isdisjoint({key, None})]


def _container(group: ParsedGroup, settings: SandboxSettings) -> dict[str, Any]:
    spec = group.spec
    return {
        "name": names.SANDBOX_CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": spec.command or idle_command(spec.lifetime_seconds),
        "workingDir": spec.workdir,
        "terminationMessagePolicy": "FallbackToLogsOnError",  # holds the words "exec format error"
        "env": [{"name": name, "value": value} for name, value in (QUIET_ENVIRONMENT | spec.env).items()],
        "resources": pod_resources(spec.resources, settings),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "capabilities": {"drop": ["ALL"], "add": [*CAPABILITIES, *settings.extra_capabilities]},
        },
    }


def idle_command(lifetime: int) -> list[str]:
    """Process 1: sleeps, ends at once on TERM, and, being a shell in `wait`, reaps orphaned processes."""
    return ["sh", "-c", f"trap 'exit 0' TERM INT; sleep {math.ceil(lifetime) + EXTRA_SLEEP} & wait"]


def pod_resources(request: Resources, settings: SandboxSettings) -> dict[str, dict[str, Any]]:
    """Requests and limits, each resource in both: as requested, else the defaults, never a limit below its request.

    The limit of a device is its request.
    """
    requests = sandbox_requests(request, settings.default_requests)
    defaults = {
        name: max(settings.default_limits.get(name, "0"), request, key=parse_quantity)
        for name, request in requests.items()
    }
    return {"requests": requests, "limits": defaults | request.limits}


def _dns(egress: Egress, settings: SandboxSettings) -> dict[str, Any]:
    """Without a network a look-up must fail at once, not after the resolver's time-outs."""
    if egress == "allow":
        return {"dnsPolicy": "Default"}
    if egress == "internet":  # the cluster's name servers would say which Services exist
        return {"dnsPolicy": "None", "dnsConfig": {"nameservers": [*settings.internet_name_servers]}}
    options = [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "1"}]
    return {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["127.0.0.1"], "options": options}}
