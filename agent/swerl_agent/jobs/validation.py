"""Everything that can be known to be wrong with a job before it is created.

Guarantees: nothing is created; a check that could not run is reported. The order: the file alone, the API server (a dry
run: the CRD's rules between fields, admission), the objects that the spec names, the room on the nodes, the images in
their registries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from swerl_api import API_VERSION, SweRLJobSpec
from swerl_kube import BadRequest, Conflict, Forbidden, Json, KubeClient, KubeError, NotFound, resource_path
from swerl_plan import Machines

from swerl_agent.registry import Availability, RegistryClient, RegistryCredentials, RegistryLimits, check_images

from .capacity import capacity_faults
from .faults import Fault, Level, file_faults, shown, value_at
from .needs import NamedObject, named_images, named_objects

GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"  # MiB of one GPU, by NVIDIA's feature discovery
DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
_REFUSAL = re.compile(
    r"(?:^|, |\[|: )(?P<field>(?:spec|metadata)[\w.\[\]-]*): "
    r"(?:Invalid value|Required value|Unsupported value|Forbidden|Too long|Too many|Duplicate value)(?P<rest>:.*?|.*?)"
    r"(?=, (?:spec|metadata|<nil>)[\w.\[\]-]*: |\]?$)",
    re.DOTALL,
)
_VALUE = re.compile(r'^: (?:"(?:[^"\\]|\\.)*"|[^":]*)(?:: )?')  # what was given; the rule follows
_UNKNOWN = re.compile(r'unknown field "(?P<field>[^"]+)"')
REMEDIES: Mapping[str, str] = {
    "PersistentVolumeClaim": "create it there, or name one of these: {others}",
    "ConfigMap": "create it there, or name one of these: {others}",
    "Secret": "create it with `kubectl create secret`, or name one of these: {others}",
    "SweImageSet": "create it there, or leave the field out; there are: {others}",
    "RuntimeClass": "install that runtime, or leave the field out; there are: {others}",
    "PriorityClass": "create it, or leave the field out; there are: {others}",
    "LocalQueue": "create it in Kueue, or leave the field out; there are: {others}",
}


@dataclass
class Validation:
    """The result: faults of a job, and what was not checked."""

    faults: list[Fault] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[Fault]:
        """Faults that keep the job from being submitted."""
        return [fault for fault in self.faults if fault.level == "error"]


async def validate(
    job: Json,
    client: KubeClient | None,
    namespace: str,
    *,
    beside: Sequence[Json] = (),
    registries: RegistryLimits | None = None,
    credentials: Mapping[str, RegistryCredentials] | None = None,
) -> Validation:
    """Check `job`; without a client the cluster is not asked, without `registries` no registry is.

    `beside`: objects that are created with it."""
    nodes = await _nodes(client) if client else None
    found = Validation(file_faults(job, _machines(nodes or ())))
    if found.errors:
        found.unchecked.append("the cluster and the registries: correct the file first")
        return found
    if client is None:
        found.unchecked.append("rules between fields and named objects: no cluster was asked")
    else:
        await _ask_server(found, client, namespace, job)
        await _check_objects(found, client, namespace, job["spec"], beside)
        spec = SweRLJobSpec.model_validate(job["spec"])
        too_large, unchecked = await capacity_faults(client, namespace, spec, nodes)
        found.faults += too_large
        found.unchecked += unchecked
    if registries is not None:
        found.faults += await image_faults(named_images(job["spec"]), registries, credentials or {})
    return found


async def image_faults(
    images: Mapping[str, str], limits: RegistryLimits, credentials: Mapping[str, RegistryCredentials]
) -> list[Fault]:
    """Images that their registries lack. One that this machine cannot decide about is a warning."""
    async with aiohttp.ClientSession() as http:
        client = RegistryClient(http, credentials, limits)
        unique = list(dict.fromkeys(images.values()))
        states = {each.image: each for each in await check_images(client, unique, concurrency=4, report=lambda _: None)}
    return [fault for place, image in images.items() for fault in _image_fault(place, states[image])]


def _image_fault(place: str, found: Availability) -> Iterator[Fault]:
    if found.state in ("missing", "denied"):
        level: Level = "error" if found.state == "missing" else "warning"
        remedy = "push it, correct the reference, or give pullSecrets"
        yield Fault(place, shown(found.image), found.detail or "no such image", remedy, level)
    elif found.state == "undecided":
        remedy = "nothing is to be done if only the nodes reach that registry"
        yield Fault(place, shown(found.image), found.detail, remedy, "warning")


async def _ask_server(found: Validation, client: KubeClient, namespace: str, job: Json) -> None:
    path = resource_path(API_VERSION, "swerljobs", namespace)
    metadata = {key: value for key, value in job["metadata"].items() if key != "namespace"}
    try:
        await client.request("POST", path, body=job | {"metadata": metadata}, query=DRY_RUN)
    except Conflict:
        name = str(job["metadata"]["name"])
        remedy = f"use another name, or `swerl cancel {name}` first, or change the job with `kubectl apply`"
        found.faults.append(Fault("metadata.name", shown(name), f"namespace {namespace} has that job", remedy))
    except BadRequest as error:
        found.faults += refusals(error.message, job)
    except NotFound as error:
        found.faults.append(_not_found(namespace, str(error)))
    except Forbidden as error:
        found.faults.append(
            Fault("metadata.namespace", shown(namespace), error.message, "ask for the right, or use -n")
        )
    except KubeError as error:
        found.unchecked.append(f"rules between fields: {error}")


def refusals(message: str, job: Json) -> list[Fault]:
    """The faults that the API server's `message` names."""
    faults = [
        Fault(match["field"], _value(job, match["field"]), "no such field", "leave it out")
        for match in _UNKNOWN.finditer(message)
    ]
    for match in _REFUSAL.finditer(message):
        rule = _VALUE.sub("", match["rest"]).strip() or "a value is required"
        faults.append(Fault(match["field"], _value(job, match["field"]), "refused by the API server", rule))
    return faults or [Fault("spec", "", "refused by the API server", message)]


def _value(job: Json, place: str) -> str:
    parts = re.findall(r"[^.\[\]]+", place)
    value = value_at(job, [int(part) if part.isdigit() else part for part in parts])
    return "" if isinstance(value, dict | list) else shown(value)


def _not_found(namespace: str, message: str) -> Fault:
    if "namespaces" in message:
        return Fault(
            "metadata.namespace", shown(namespace), "no such namespace", f"kubectl create namespace {namespace}"
        )
    remedy = "install the chart: helm install swe-rl charts/"
    return Fault("apiVersion", shown(API_VERSION), "the cluster does not serve SweRLJobs", remedy)


async def _check_objects(
    found: Validation, client: KubeClient, namespace: str, spec: Json, beside: Sequence[Json]
) -> None:
    coming = {(each.get("kind"), (each.get("metadata") or {}).get("name")) for each in beside}
    for need in named_objects(spec):
        if (need.kind, need.name) in coming:
            continue
        place = namespace if need.namespaced else None
        try:
            if await client.find(need.api, need.resource, place, need.name) is None:
                others = [str(each["metadata"]["name"]) for each in await client.list(need.api, need.resource, place)]
                found.faults.append(_missing(need, namespace, others))
        except NotFound:
            found.faults.append(_missing(need, namespace, []))
        except Forbidden:
            found.unchecked.append(f"{need.field} {need.name!r}: you may not read that {need.kind}")


def _missing(need: NamedObject, namespace: str, others: Sequence[str]) -> Fault:
    where = f" in namespace {namespace}" if need.namespaced else ""
    remedy = REMEDIES[need.kind].format(others=", ".join(sorted(others)[:8]) or "none")
    return Fault(need.field, shown(need.name), f"no such {need.kind}{where}", remedy)


async def _nodes(client: KubeClient) -> list[Json] | None:
    """The nodes; None for a user who may not list them."""
    try:
        return await client.list("v1", "nodes", None)
    except KubeError:
        return None


def _machines(nodes: Sequence[Json]) -> Machines:
    """The largest GPU of the nodes, where their labels say it."""
    labels = [str(node["metadata"].get("labels", {}).get(GPU_MEMORY_LABEL, "")) for node in nodes]
    return Machines(gpu_memory=max((int(label) << 20 for label in labels if label.isdecimal()), default=None))
