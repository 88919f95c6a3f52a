"""What the rules depend on, taken from API objects; everything else (heartbeats, conditions) is left out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster.watch import Json, Key

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    ports: Mapping[tuple[str, str], int]  # (name, protocol) -> number
    ips: tuple[str, ...]  # one of each family; empty until the kubelet reports them


@dataclass(frozen=True)
class Policy:
    namespace: str
    name: str
    spec: Json


@dataclass
class ObservedObjects:
    """The objects seen so far; a kind that was never listed is None."""

    pods: dict[Key, Pod] | None = None
    namespaces: dict[Key, Mapping[str, str]] | None = None
    policies: dict[Key, Policy] | None = None
    assigned: dict[str, tuple[Key, str]] = field(default_factory=dict)  # address -> Pod and uid, from the CNI chain

    @property
    def complete(self) -> bool:
        return self.pods is not None and self.namespaces is not None and self.policies is not None

    def addresses(self) -> dict[str, Pod]:
        """Pod of each address; an assignment stands until the Pod is another one or the kubelet reports otherwise."""
        pods = self.pods or {}
        found = {address: pod for pod in pods.values() for address in pod.ips}
        for address, (key, uid) in self.assigned.items():
            pod = pods.get(key)
            if pod and pod.uid == uid and (not pod.ips or address in pod.ips):
                found[address] = pod
        return found

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        return (self.namespaces or {}).get(("", name))


def pod(item: Json) -> Pod | None:
    """None when the Pod has no network of its own, or no longer one."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    if spec.get("hostNetwork") or status.get("phase") in _FINISHED:
        return None
    containers = [*spec.get("containers", []), *(spec.get("initContainers") or [])]
    ports = {
        (port["name"], port.get("protocol", "TCP")): int(port["containerPort"])
        for container in containers
        for port in container.get("ports") or []
        if port.get("name")
    }
    ips = tuple(each["ip"] for each in status.get("podIPs") or [{"ip": status.get("podIP")}] if each.get("ip"))
    return Pod(meta["namespace"], meta["name"], meta["uid"], meta.get("labels") or {}, ports, ips)


def namespace(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def policy(item: Json) -> Policy:
    return Policy(item["metadata"]["namespace"], item["metadata"]["name"], item.get("spec") or {})


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """metav1.LabelSelector; the empty one selects everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches(expression, labels) for expression in selector.get("matchExpressions") or [])


def applying(policies: Iterable[Policy], target: Pod, direction: str) -> list[Policy]:
    """Policies that isolate `target` in `direction`, `Ingress` or `Egress`."""
    return [
        each
        for each in policies
        if each.namespace == target.namespace
        and direction in _types(each.spec)
        and selects(each.spec.get("podSelector") or {}, target.labels)
    ]


def _types(spec: Json) -> list[str]:
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]


def _matches(expression: Json, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator not in ("Exists", "DoesNotExist"):
        raise ValueError(f"label selector operator {operator!r} is unknown")
    return bool((key in labels) == (operator == "Exists"))
