"""Runs every check; one that may not read its objects, or gets no answer, is a finding `unknown`.

Guarantee: every check has ended, and removed what it made, before an error is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swerl_kube import ApiError, Json, KubeClient, KubeError, NotFound, Unavailable

from swerl_agent.registry import RegistryCredentials, RegistryLimits

from . import control_plane, namespace, nodes, probe
from .finding import Finding
from .registries import registries

Check = Callable[[], Awaitable[Iterable[Finding]]]
# What a user needs who runs jobs, evaluations and sandboxes from the command line: group, resource, verbs.
RIGHTS = (
    ("swerl.dev", "swerljobs", ("create",)),
    ("swerl.dev", "sweevals", ("create",)),
    ("swerl.dev", "swesandboxes", ("create", "get", "watch", "delete")),
    ("batch", "jobs", ("create", "delete")),
    ("", "configmaps", ("create", "patch", "delete")),
    ("", "pods", ("get", "watch")),
    ("", "pods/log", ("get",)),
    ("", "pods/exec", ("create", "get")),  # WebSockets need get
    ("coordination.k8s.io", "leases", ("create", "get", "patch", "delete")),
    ("networking.k8s.io", "networkpolicies", ("create", "delete")),
)


@dataclass(frozen=True)
class DoctorOptions:
    """What to examine."""

    namespace: str
    images: Sequence[str] = ()  # asked of their registries; the first is the probe Pods' image
    runtime_class: str | None = None
    pull_secrets: Sequence[str] = ()
    pods: bool = True  # whether Pods are created
    start_seconds: float = 120.0
    credentials: Mapping[str, RegistryCredentials] = field(default_factory=dict)
    registry_limits: RegistryLimits = field(default_factory=RegistryLimits)


async def examine(client: KubeClient, options: DoctorOptions) -> list[Finding]:
    """All findings, in the order of the checks; raises Unreachable without an API server."""
    examination = _Examination(client, options)
    found = list(await examination.kubernetes())  # nothing else can be examined without it
    checks: dict[str, Check] = {
        "permissions": examination.permissions,
        "kuberay": examination.kuberay,
        "crds": examination.crds,
        "operator": examination.operators,
        "fairness": examination.fairness,
        "nodes": examination.nodes,
        "storage": examination.storage,
        "quotas": examination.quotas,
        "pod-security": examination.pod_security,
        "registry": examination.registries,
        "pods": examination.pods,
    }
    ended = await asyncio.gather(*(_answered(name, check) for name, check in checks.items()), return_exceptions=True)
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        found += result
    return found


async def _answered(name: str, check: Check) -> list[Finding]:
    try:
        return list(await check())
    except ApiError as error:
        remedy = "run the command as an administrator of the cluster, or grant the right to read it"
        return [Finding(name, "unknown", error.message, remedy)]
    except Unavailable as error:
        return [Finding(name, "unknown", str(error), "run the command again when the API server answers")]


class _Examination:
    """Reads what the checks need."""

    def __init__(self, client: KubeClient, options: DoctorOptions) -> None:
        self._client, self._options = client, options
        self._lists: dict[str, asyncio.Task[list[Json]]] = {}  # by resource: those that several checks read at once

    async def kubernetes(self) -> Iterable[Finding]:
        return control_plane.kubernetes_version(await self._client.request("GET", "/version"))

    async def permissions(self) -> Iterable[Finding]:
        rights = [(group, resource, verb) for group, resource, verbs in RIGHTS for verb in verbs]
        allowed = await asyncio.gather(*(self._may(*right) for right in rights))
        lacking = [f"{verb} {resource}" for (_, resource, verb), may in zip(rights, allowed, strict=True) if not may]
        if not lacking:
            return [Finding("permissions", "ok", "this account may run jobs, evaluations and sandboxes")]
        text = f"this account may not: {', '.join(lacking)} in namespace {self._options.namespace}"
        remedy = "an administrator grants them with a Role and a RoleBinding in that namespace"
        return [Finding("permissions", "failed", text, remedy)]

    async def kuberay(self) -> Iterable[Finding]:
        return control_plane.kuberay(await self._serves_ray(), await self._all_deployments())

    async def crds(self) -> Iterable[Finding]:
        return control_plane.definitions(
            await self._client.list("apiextensions.k8s.io/v1", "customresourcedefinitions", None)
        )

    async def operators(self) -> Iterable[Finding]:
        return control_plane.operators(await self._all_deployments(), self._options.namespace)

    async def fairness(self) -> Iterable[Finding]:
        api = "flowcontrol.apiserver.k8s.io/v1"
        schemas = await self._client.list(api, "flowschemas", None)
        levels = await self._client.list(api, "prioritylevelconfigurations", None)
        return control_plane.fairness(schemas, levels, self._options.namespace)

    async def nodes(self) -> Iterable[Finding]:
        found = await self._nodes()
        classes = await self._client.list("node.k8s.io/v1", "runtimeclasses", None)
        return [
            *nodes.gpus(found),
            *nodes.architectures(found),
            *nodes.runtime_classes(classes, found, self._options.runtime_class),
        ]

    async def storage(self) -> Iterable[Finding]:
        place = self._options.namespace
        classes = await self._client.list("storage.k8s.io/v1", "storageclasses", None)
        found = await self._client.list("v1", "persistentvolumeclaims", place)
        fields = "involvedObject.kind=PersistentVolumeClaim"
        events = await self._client.list("v1", "events", place, fields=fields)
        count = len(await self._nodes())
        return [*namespace.storage_classes(classes, count), *namespace.claims(found, classes, events)]

    async def quotas(self) -> Iterable[Finding]:
        return namespace.quotas(await self._client.list("v1", "resourcequotas", self._options.namespace))

    async def pod_security(self) -> Iterable[Finding]:
        return namespace.pod_security(await self._client.get("v1", "namespaces", None, self._options.namespace))

    async def registries(self) -> Iterable[Finding]:
        options = self._options
        return await registries(options.images, options.credentials, options.registry_limits)

    async def pods(self) -> Iterable[Finding]:
        options = self._options
        image = options.images[0] if options.images else await self._operator_image()
        if image is None:
            return [Finding("pods", "unknown", "no image for the probe's Pods is known", "give --image REFERENCE")]
        settings = probe.ProbeSettings(image, options.runtime_class, tuple(options.pull_secrets), options.start_seconds)
        found = await probe.admission(self._client, options.namespace, settings)
        if not options.pods or found[0].status != "ok":
            return found
        return [*found, *await probe.probes(self._client, options.namespace, settings)]

    async def _may(self, group: str, resource: str, verb: str) -> bool:
        name, _, sub = resource.partition("/")
        attributes = {"namespace": self._options.namespace, "group": group, "resource": name, "verb": verb}
        attributes |= {"subresource": sub} if sub else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": attributes},
        }
        answer = await self._client.create("selfsubjectaccessreviews", body)
        return bool(answer["status"].get("allowed"))

    async def _serves_ray(self) -> bool:
        try:
            served = await self._client.request("GET", "/apis/ray.io/v1")
        except NotFound:
            return False
        return any(resource["name"] == "rayclusters" for resource in served.get("resources", []))

    async def _nodes(self) -> list[Json]:
        return await self._listed_once("v1", "nodes")

    async def _all_deployments(self) -> list[Json]:
        return await self._listed_once("apps/v1", "deployments")

    async def _listed_once(self, api: str, resource: str) -> list[Json]:
        if resource not in self._lists:
            self._lists[resource] = asyncio.create_task(self._client.list(api, resource, None))
        return await self._lists[resource]

    async def _operator_image(self) -> str | None:
        """The image of an operator of swe-rl: the nodes can pull it, and it has python3."""
        try:
            found = await self._all_deployments()
        except KubeError:
            return None
        return control_plane.operator_image(found)
