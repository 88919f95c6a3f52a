"""API server, KubeRay, CRDs, operator, priority and fairness. Pure: findings from objects of the API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swerl_api.base import VERSION
from swerl_api.crd import KINDS, crd
from swerl_api.names import INSTALL_KUBERAY, KUBERAY_RELEASE

from swerl_agent import RELEASE

from .finding import Finding

Json = Mapping[str, Any]
MIN_KUBERNETES = (1, 30)
MIN_KUBERAY = (1, 6)
UPGRADE_CRDS = (
    f"helm upgrade --reset-then-reuse-values with the chart of version {RELEASE}, even where it runs already: "
    "an upgrade writes the CRDs, unless crds.upgrade is false; helm install leaves those that exist"
)
KUBERAY_IMAGES = ("kuberay/operator", "kuberay-operator")
FEW_SHARES = 0.05  # of the API server's concurrency


def kubernetes_version(version: Json) -> Iterator[Finding]:
    """Of the answer to /version."""
    text = str(version.get("gitVersion") or "?")
    if (found := _numbers(text)) and found < MIN_KUBERNETES:
        least = ".".join(map(str, MIN_KUBERNETES))
        yield Finding("kubernetes", "failed", f"the API server is {text}", f"upgrade to Kubernetes {least} or later")
    else:
        yield Finding("kubernetes", "ok", f"API server {text}")


def kuberay(served: bool, deployments: Iterable[Json]) -> Iterator[Finding]:
    """`served`: whether the cluster serves ray.io/v1 RayClusters; `deployments` of all namespaces."""
    if not served:
        yield Finding("kuberay", "failed", "the cluster does not serve ray.io/v1 RayClusters", INSTALL_KUBERAY)
        return
    operators = [(one, image) for one in deployments for image in _images(one) if _is_kuberay(image)]
    if not operators:
        text = "RayClusters are served, but no Deployment runs the KubeRay operator"
        yield Finding("kuberay", "failed", text, KUBERAY_RELEASE)
    for deployment, image in operators:
        yield _kuberay_operator(deployment, image)
    if len(operators) > 1:
        names = ", ".join(_full_name(deployment) for deployment, _ in operators)
        yield Finding("kuberay", "warning", f"several KubeRay operators run: {names}", "keep one per namespace served")


def _kuberay_operator(deployment: Json, image: str) -> Finding:
    tag = image.rpartition(":")[2]
    version = _numbers(tag)
    if version is not None and version < MIN_KUBERAY:
        least = ".".join(map(str, MIN_KUBERAY))
        text = f"the KubeRay operator {_full_name(deployment)} is {tag}; swe-rl needs {least} or later"
        return Finding("kuberay", "failed", text, KUBERAY_RELEASE)
    if not _available(deployment):
        text = f"the KubeRay operator {_full_name(deployment)} is not available: {_not_available(deployment)}"
        return Finding("kuberay", "failed", text, _describe(deployment))
    return Finding("kuberay", "ok", f"operator {_full_name(deployment)}, image tag {tag}")


def definitions(found: Iterable[Json]) -> Iterator[Finding]:
    """Whether the CRDs are those of this release."""
    by_name = {definition["metadata"]["name"]: definition for definition in found}
    expected = {body["metadata"]["name"]: body for body in map(crd, KINDS)}
    missing = sorted(expected.keys() - by_name.keys())
    if missing:
        text = f"missing CustomResourceDefinitions: {', '.join(missing)}"
        yield Finding("crds", "failed", text, "helm upgrade --install swe-rl charts/")
    differing = sorted(
        name for name, body in expected.items() if name in by_name and _schema(by_name[name]) != _schema(body)
    )
    if differing:
        text = f"CustomResourceDefinitions of another version than this command ({RELEASE}): {', '.join(differing)}"
        yield Finding("crds", "failed", text, UPGRADE_CRDS)
    if not missing and not differing:
        yield Finding("crds", "ok", f"all {len(expected)} are of version {RELEASE}")


def operators(deployments: Iterable[Json], namespace: str) -> Iterator[Finding]:
    """The operators of swe-rl among `deployments` that serve `namespace`."""
    found = [one for one in deployments if _is_swe_rl(one)]
    serving = [one for one in found if (served := served_namespaces(one)) is None or namespace in served]
    if not serving:
        others = f"; {', '.join(map(_full_name, found))} serve others" if found else ""
        text = f"no operator serves namespace {namespace}{others}"
        served_now = sorted(name for one in found for name in served_namespaces(one) or ())
        names = ",".join([*served_now, namespace])
        remedy = "helm upgrade --install swe-rl charts/" + (f" --set 'namespaces={{{names}}}'" if found else "")
        yield Finding("operator", "failed", text, remedy)
    for deployment in serving:
        yield _operator(deployment)
    if len(serving) > 1:
        names = ", ".join(map(_full_name, serving))
        text = f"several releases serve namespace {namespace}: {names}; each reconciles every object"
        yield Finding("operator", "failed", text, "helm uninstall all but one, or set their values `namespaces`")


def operator_image(deployments: Iterable[Json]) -> str | None:
    """The image of the first operator of swe-rl."""
    return next((_images(one)[0] for one in deployments if _is_swe_rl(one)), None)


def _is_swe_rl(deployment: Json) -> bool:
    labels: Json = deployment["metadata"].get("labels") or {}
    return labels.get("app.kubernetes.io/name") == "swe-rl"


def _operator(deployment: Json) -> Finding:
    version = str(deployment["metadata"]["labels"].get("app.kubernetes.io/version") or "unknown")
    if version != RELEASE:
        text = f"operator {_full_name(deployment)} is version {version}, this command and its CRDs are {RELEASE}"
        return Finding("operator", "failed", text, f"helm upgrade {_full_name(deployment)}, or install swerl {version}")
    if not _available(deployment):
        text = f"operator {_full_name(deployment)} is not available: {_not_available(deployment)}"
        return Finding("operator", "failed", text, _describe(deployment))
    return Finding("operator", "ok", f"{_full_name(deployment)}, version {version}")


def fairness(schemas: Iterable[Json], levels: Iterable[Json], namespace: str) -> Iterator[Finding]:
    """Which priority level serves the requests of accounts in `namespace` (API priority and fairness)."""
    by_name = {level["metadata"]["name"]: level["spec"] for level in levels}
    order = sorted(schemas, key=lambda one: (one["spec"].get("matchingPrecedence", 0), one["metadata"]["name"]))
    schema = next((one for one in order if _matches(one["spec"], namespace)), None)
    if schema is None:
        return
    name, level = schema["metadata"]["name"], schema["spec"]["priorityLevelConfiguration"]["name"]
    limited = (by_name.get(level) or {}).get("limited")
    if level in by_name and limited is None:
        yield Finding("fairness", "ok", f"requests of accounts in {namespace} are exempt (FlowSchema {name})")
        return
    shares = _shares(by_name.get(level) or {})
    total = sum(map(_shares, by_name.values())) or 1
    text = (
        f"FlowSchema {name} gives accounts in {namespace} priority level {level} with {shares} of {total} concurrency "
        "shares"
    )
    remedy = f"delete FlowSchema {name}, or raise nominalConcurrencyShares of PriorityLevelConfiguration {level}"
    if level not in by_name or shares == 0:
        yield Finding("fairness", "failed", text, remedy)
    elif shares / total < FEW_SHARES:
        yield Finding("fairness", "warning", text, remedy)
    else:
        yield Finding("fairness", "ok", text)


def _matches(schema: Json, namespace: str) -> bool:
    """Whether the schema is for requests that a driver in `namespace` sends."""
    rules = schema.get("rules") or ()
    return any(
        any(_is_driver(subject, namespace) for subject in rule.get("subjects") or ())
        and any(_covers(resources, namespace) for resources in rule.get("resourceRules") or ())
        for rule in rules
    )


def _is_driver(subject: Json, namespace: str) -> bool:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated", "*")
    if subject["kind"] == "Group":
        return subject["group"]["name"] in groups
    if subject["kind"] == "ServiceAccount":
        account = subject["serviceAccount"]
        return bool(account["namespace"] == namespace and str(account["name"]).endswith(("*", "-driver")))
    return bool(subject["user"]["name"] == "*")


def _covers(rule: Json, namespace: str) -> bool:
    def has(key: str, *values: str) -> bool:
        given = rule.get(key) or ()
        return "*" in given or any(value in given for value in values)

    return has("verbs", "create") and has("apiGroups", "") and has("resources", "pods") and has("namespaces", namespace)


def _shares(level: Json) -> int:
    kind = level.get("limited") or level.get("exempt") or {}
    shares = kind.get("nominalConcurrencyShares")
    return int(shares) if shares is not None else 30 if level.get("limited") is not None else 0


def _schema(definition: Json) -> Any:
    versions: Sequence[Json] = definition["spec"]["versions"]
    return next((one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == VERSION), None)


def served_namespaces(deployment: Json) -> frozenset[str] | None:
    """Namespaces that an operator serves; None: all."""
    named = option_of(deployment, "namespaces")
    return frozenset(named.split(",")) if named is not None else None


def option_of(deployment: Json, name: str) -> str | None:
    """The value of the option --`name` of a Deployment's containers; None where it is not given."""
    arguments = [argument for one in _containers(deployment) for argument in one.get("args") or ()]
    given = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"--{name}=")]
    return str(given[-1]) if given else None


def _is_kuberay(image: str) -> bool:
    return image.partition("@")[0].rpartition(":")[0].endswith(KUBERAY_IMAGES)


def _containers(deployment: Json) -> Sequence[Json]:
    found: Sequence[Json] = deployment["spec"]["template"]["spec"]["containers"]
    return found


def _images(deployment: Json) -> list[str]:
    return [str(container["image"]) for container in _containers(deployment)]


def _available(deployment: Json) -> bool:
    return bool((deployment.get("status") or {}).get("availableReplicas"))


def _not_available(deployment: Json) -> str:
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    messages = (str(one.get("message") or "") for one in conditions if one.get("status") == "False")
    return "; ".join(filter(None, messages)) or "no replica is ready"


def _describe(deployment: Json) -> str:
    metadata = deployment["metadata"]
    return f"kubectl -n {metadata['namespace']} describe deployment {metadata['name']}"


def _full_name(deployment: Json) -> str:
    return f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"


def _numbers(text: str) -> tuple[int, int] | None:
    """Major and minor version in a tag such as v1.6.0; None for others, such as `latest` or a hash."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
