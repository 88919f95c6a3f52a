"""A namespace: storage, claims, quotas, Pod Security. Pure: findings from objects of the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from swerl_api.quantity import parse_amounts

from .finding import Finding, FindingStatus

Json = Mapping[str, Any]
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
ENFORCED_LEVEL = "pod-security.kubernetes.io/enforce"
# Provisioners whose volumes several nodes can write, and those whose volumes one node can.
SHARED = (
    "efs.csi.aws.com",
    "fsx.csi.aws.com",
    "filestore.csi.storage.gke.io",
    "parallelstore.csi.storage.gke.io",
    "file.csi.azure.com",
    "kubernetes.io/azure-file",
    "nfs.csi.k8s.io",
    "cephfs.csi.ceph.com",
    "driver.longhorn.io",
    "csi.juicefs.com",
    "beegfs.csi.netapp.com",
    "csi.weka.io",
)
RWX_REMEDY = "see docs/clusters.md: Filestore (GKE), EFS or FSx (EKS), Azure Files (AKS), NFS or CephFS elsewhere"
NEAR_LIMIT = 0.9  # of a quota


def storage_classes(classes: Sequence[Json], node_count: int) -> Iterator[Finding]:
    """StorageClasses: a default, and one for several nodes."""
    names = [str(one["metadata"]["name"]) for one in classes]
    if not classes:
        yield Finding("storage", "failed", "the cluster has no StorageClass: claims stay Pending", RWX_REMEDY)
        return
    default = [one for one in classes if (one["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
    if not default:
        text = f"no default StorageClass: claims without storageClassName stay Pending; there are: {', '.join(names)}"
        remedy = f"kubectl annotate storageclass {names[0]} {DEFAULT_CLASS}=true, or storageClassName in each claim"
        yield Finding("storage", "warning", text, remedy)
    shared = [str(one["metadata"]["name"]) for one in classes if _is_shared(str(one["provisioner"]))]
    if not shared and node_count > 1:
        text = (
            f"no StorageClass is known for ReadWriteMany ({', '.join(names)}); a job whose Pods run on several nodes "
            "needs such a volume"
        )
        yield Finding("storage", "warning", text, RWX_REMEDY)
    else:
        yield Finding("storage", "ok", f"StorageClasses {', '.join(names)}; ReadWriteMany: {', '.join(shared) or '-'}")


def claims(found: Iterable[Json], classes: Iterable[Json], events: Iterable[Json]) -> Iterator[Finding]:
    """Claims that wait for a volume; `events`: of claims."""
    modes = {str(one["metadata"]["name"]): one.get("volumeBindingMode") for one in classes}
    newest = {str(one["involvedObject"].get("name")): str(one.get("message") or "") for one in events}
    for claim in found:
        if (claim.get("status") or {}).get("phase") != "Pending":
            continue
        name, class_name = str(claim["metadata"]["name"]), claim["spec"].get("storageClassName")
        if class_name and class_name not in modes:
            text = f"claim {name} is Pending: StorageClass {class_name!r} does not exist"
            remedy = (
                f"name one of: {', '.join(modes) or 'none there'} (the field cannot change: create the claim again)"
            )
            yield Finding("claims", "failed", text, remedy)
        elif class_name is None:
            text = f"claim {name} is Pending: it names no StorageClass, and no default was there when it was created"
            yield Finding("claims", "failed", text, "set storageClassName, and create the claim again")
        elif modes.get(str(class_name)) != "WaitForFirstConsumer":
            text = f"claim {name} is Pending: {newest.get(name) or 'its provisioner has not answered'}"
            yield Finding("claims", "warning", text, f"kubectl describe pvc {name}")


def quotas(found: Iterable[Json]) -> Iterator[Finding]:
    """Quotas without room."""
    for quota in found:
        status = quota.get("status") or {}
        hard, used = parse_amounts(status.get("hard")), parse_amounts(status.get("used"))
        shares = {name: float(used.get(name, 0)) / float(most) if most else 1.0 for name, most in hard.items()}
        if full := [name for name, share in shares.items() if share >= 1]:
            yield _quota(quota, "failed", "has nothing left of", full)
        if near := [name for name, share in shares.items() if NEAR_LIMIT <= share < 1]:
            yield _quota(quota, "warning", "is nearly used:", near)


def _quota(quota: Json, status: FindingStatus, description: str, resources: Sequence[str]) -> Finding:
    name, amounts = quota["metadata"]["name"], quota["status"]
    shown = ", ".join(f"{one} {(amounts.get('used') or {}).get(one, 0)} of {amounts['hard'][one]}" for one in resources)
    remedy = f"raise it (kubectl describe quota {name}), or lower sandbox.maxConcurrent and resources"
    return Finding("quotas", status, f"ResourceQuota {name} {description} {shown}", remedy)


def pod_security(namespace: Json) -> Iterator[Finding]:
    """Whether the enforced level of Pod Security admits sandboxes."""
    labels = namespace["metadata"].get("labels") or {}
    name, level = namespace["metadata"]["name"], labels.get(ENFORCED_LEVEL)
    if level == "restricted":
        text = f"namespace {name} enforces Pod Security level restricted, which refuses sandboxes and gradings (root)"
        remedy = f"kubectl label --overwrite namespace {name} {ENFORCED_LEVEL}=baseline, or use another namespace"
        yield Finding("pod-security", "failed", text, remedy)
    else:
        yield Finding("pod-security", "ok", f"namespace {name} enforces {level or 'no level by label'}")


def restricting_policies(policies: Iterable[Json], labels: Mapping[str, str], direction: str) -> list[str]:
    """Names of the NetworkPolicies that select a Pod with `labels` and limit its traffic in `direction`."""
    return [name for name, spec in _selecting(policies, labels) if direction in (spec.get("policyTypes") or ())]


def opening_policies(policies: Iterable[Json], labels: Mapping[str, str]) -> list[str]:
    """Names of the NetworkPolicies that allow some egress to a Pod with `labels`; policies add up."""
    return [name for name, spec in _selecting(policies, labels) if spec.get("egress")]


def _selecting(policies: Iterable[Json], labels: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    """Name and spec of the NetworkPolicies that select a Pod with `labels`."""
    for policy in policies:
        spec: Json = policy.get("spec") or {}
        if selects(spec.get("podSelector") or {}, labels):
            yield str(policy["metadata"]["name"]), spec


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches `labels`."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, labels.get(one["key"])) for one in selector.get("matchExpressions") or ())


def _holds(expression: Json, value: str | None) -> bool:
    match expression["operator"]:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value in expression["values"]
        case _:
            return value not in expression["values"]


def _is_shared(provisioner: str) -> bool:
    return provisioner.endswith(SHARED)  # Rook prefixes the names with its namespace
