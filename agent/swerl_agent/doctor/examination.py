"""Runs every check; a check that may not read its objects is a finding `unknown`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from swerl_kube import ApiError, Forbidden, Json, KubeClient, NotFound, Unauthorized

from swerl_agent.registry import Credentials, RegistryLimits

from . import control_plane, namespace, nodes, probe
from .finding import Finding
from .registries import registries

Check = Callable[[], Awaitable[Iterable[Finding]]]
# What a user needs who runs jobs from the command line: group, resource, verb.
RIGHTS = (
    ("swerl.dev", "swerljobs", "create"),
    ("swerl.dev", "swesandboxes", "create"),
    ("batch", "jobs", "create"),
    ("", "configmaps", "create"),
    ("", "pods", "get"),
    ("", "pods/exec", "create"),
    ("networking.k8s.io", "networkpolicies", "create"),
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
    credentials: Mapping[str, Credentials] = field(default_factory=dict)
    registry_limits: RegistryLimits = field(default_factory=RegistryLimits)


async def examine(client: KubeClient, options: DoctorOptions) -> list[Finding]:
    """All findings, in the order of the checks; raises Unreachable without an API server."""
    examination = _Examination(client, options)
    await examination.kubernetes()  # nothing else is worth a try without it
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
    found = await asyncio.gather(*(_permitted(name, check) for name, check in checks.items()))
    return [*examination.found, *itertools.chain.from_iterable(found)]


async def _permitted(name: str, check: Check) -> list[Finding]:
    try:
        return list(await check())
    except (Forbidden, NotFound, Unauthorized) as error:
        remedy = "run the command as an administrator of the cluster, or grant the right to read it"
        return [Finding(name, "unknown", error.message, remedy)]


class _Examination:
    """Reads what the checks need."""

    def __init__(self, client: KubeClient, options: DoctorOptions) -> None:
        self._client, self._options = client, options
        self._deployments: list[Json] | None = None
        self.found: list[Finding] = []

    async def kubernetes(self) -> None:
        self.found += control_plane.kubernetes_version(await self._client.request("GET", "/version"))

    async def permissions(self) -> Iterable[Finding]:
        lacking = [
            f"{verb} {resource}" for group, resource, verb in RIGHTS if not await self._may(group, resource, verb)
        ]
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
        found = await self._client.list("v1", "nodes", None)
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
        count = len(await self._client.list("v1", "nodes", None))
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

    async def _all_deployments(self) -> list[Json]:
        if self._deployments is None:
            self._deployments = await self._client.list("apps/v1", "deployments", None)
        return self._deployments

    async def _operator_image(self) -> str | None:
        """The image of an operator of swe-rl: the nodes can pull it, and it has python3."""
        try:
            found = await self._all_deployments()
        except ApiError:
            return None
        return control_plane.operator_image(found)
