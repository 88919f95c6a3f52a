"""Objects of our kinds whose values reach for what their author has no right to. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, repeat
from typing import Any

from hypothesis import strategies as st
from swerl_api import API_VERSION
from swerl_api.crd import SWEEVAL, SWEIMAGESET, SWERLJOB, SWESANDBOX, Kind

from tests.chaos.malformed import draw_many, with_value
from tests.control_plane.sandboxes.conftest import IMAGE

from .test_driver_policy import changed

Json = dict[str, Any]
SMALL = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}
MAP = {"source": {"configMap": {"name": "tasks"}}}
CLAIM = {"persistentVolumeClaim": {"claimName": "runs"}}  # never bound, so that no Ray Pod runs
ENGINES = {"image": IMAGE, "sharedMemory": "64Mi", "resources": SMALL, "headResources": SMALL}
HONEST: dict[Kind, list[Json]] = {
    SWESANDBOX: [{"image": IMAGE, "workdir": "/", "resources": SMALL, "lifetimeSeconds": 10}],
    SWERLJOB: [
        {
            "model": MAP,
            "tasks": MAP,
            "trainer": ENGINES,
            "rollout": {"resources": SMALL},
            "checkpoint": {"volume": CLAIM},
        }
    ],
    SWEEVAL: [
        {"model": model, "tasks": MAP, "image": IMAGE, "resources": SMALL, "output": {"volume": CLAIM}} | rollout
        for model, rollout in (
            ({"endpoint": {"url": "http://none.invalid", "tokenizer": MAP["source"]}}, {}),
            (MAP, {"rollout": ENGINES}),
        )
    ],
    SWEIMAGESET: [{"images": [IMAGE], "retries": 0}],
}
FOREIGN_LABELS = (
    {"swerl.dev/job": "victim"},
    {"swerl.dev/job": "victim", "swerl.dev/attempt": "1", "swerl.dev/role": "driver", "ray.io/cluster": "victim-1"},
    {"swerl.dev/evaluation": "victim", "swerl.dev/role": "shard"},
    {"swerl.dev/image-set": "victim", "swerl.dev/grader": "victim", "swerl.dev/egress": "allow"},
    {"swerl.dev/sandbox": "victim", "swerl.dev/task": "victim", "app": "database"},
    {"ray.io/cluster": "victim-1", "ray.io/node-type": "head"},
    {"app.kubernetes.io/name": "swe-rl", "app.kubernetes.io/component": "operator"},
)
UNCONFINED = "container.apparmor.security.beta.kubernetes.io"  # annotation of a Pod, for one container
ANNOTATIONS = (
    {f"{UNCONFINED}/sandbox": "unconfined"},
    {"ray.io/overwrite-container-cmd": "true"},
    {"swerl.dev/retry": "1", "swerl.dev/profile": "step=1", "swerl.dev/fingerprint": "0"},
)
NODE_FOLDER = {"name": "v", "hostPath": {"path": "/"}}
TOKEN = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}
PRIVILEGED = {"privileged": True, "allowPrivilegeEscalation": True, "capabilities": {"add": ["SYS_ADMIN"]}}
# Fields of a Pod, most of which no field of ours is for: wherever they stand.
POD_FIELDS: tuple[Json, ...] = (
    {"hostNetwork": True},
    {"hostPID": True, "hostIPC": True, "hostUsers": True},
    {"securityContext": PRIVILEGED | {"seccompProfile": {"type": "Unconfined"}, "sysctls": [{"name": "a"}]}},
    PRIVILEGED,
    {"capabilities": ["SYS_ADMIN", "NET_RAW"]},
    {"automountServiceAccountToken": True, "serviceAccountName": "rich", "serviceAccount": "rich"},
    {"account": "rich-driver"},
    {"nodeName": "swerl-node"},
    {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "swerl-node"}},
    {"volumes": [NODE_FOLDER], "volumeMounts": [{"name": "v", "mountPath": "/host"}]},
    {"volumes": [TOKEN]},
    {"volume": {"hostPath": {"path": "/etc", "type": ""}}},
    {"hostPath": {"path": "/"}},
    {"initContainers": [{"name": "x", "image": IMAGE, "securityContext": PRIVILEGED}]},
    {"containers": [{"name": "x", "image": IMAGE, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"podOverrides": {"hostNetwork": True}, "extraCapabilities": ["SYS_ADMIN"]},
    {"runtimeClassName": "runc"},
    {"rayStartParams": {"block": "true"}, "enableIngress": True, "serviceType": "LoadBalancer"},
    {"resources": SMALL | {"limits": {"rdma/hca_shared": 0}}},
    {"runAsUser": 0},
    {"egress": "allow"},
    {"queueName": "victim"},
    *({"labels": labels} for labels in FOREIGN_LABELS),
    *({"annotations": annotations} for annotations in ANNOTATIONS),
)


@dataclass(frozen=True)
class Reach:
    """Names of what belongs to others."""

    neighbour: str  # another namespace
    operator: str  # the operator's namespace
    secret: str  # the operator's Secret with its key

    @property
    def names(self) -> tuple[str, ...]:
        """What stands where a name, an image or a path is asked for."""
        places = (self.neighbour, self.operator, "kube-system")
        return (
            *(f"{place}{separator}theirs" for place in places for separator in "/.:"),
            *("theirs", "rich", self.secret, "/", "..", "../../../etc", f"../{self.secret}", "a/b", "a.b"),
            f"system:serviceaccount:{self.neighbour}:rich",
        )

    @property
    def fields(self) -> tuple[Json, ...]:
        """Fields that name objects of others."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "0"}
        return (
            *({"namespace": place} for place in (self.neighbour, self.operator, "kube-system")),
            {"metadata": {"namespace": self.neighbour, "ownerReferences": [owner]}},
            {"claimName": "theirs"},
            {"configMap": {"name": "theirs", "namespace": self.neighbour}},
            {"secret": {"secretName": self.secret}, "secretName": self.secret},
            {"persistentVolumeClaim": {"claimName": "theirs", "namespace": self.neighbour}},
            {"pullSecrets": ["theirs"], "imagePullSecrets": [self.secret], "envFromSecrets": [self.secret]},
            {"envFrom": [{"secretRef": {"name": self.secret}}], "apiKeySecret": {"name": self.secret, "key": "key"}},
            {"env": {"KUBECONFIG": "/etc/kubernetes/admin.conf", "SWERL_API_KEY": "x"}},
            {"owner": f"{self.operator}.lease"},
            {"imagesFrom": {"configMap": "theirs", "namespace": self.neighbour}},
        )

    @property
    def templates(self) -> tuple[Json, ...]:
        """What a podTemplate adds."""
        mounts = [{"name": "v", "mountPath": "/mnt"}]
        shadow = [{"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "subPath": "../.."}]
        sources: tuple[Json, ...] = (
            {"hostPath": {"path": "/"}},
            {"hostPath": {"path": "/var/run/containerd/containerd.sock", "type": ""}},
            {"secret": {"secretName": self.secret}},
            {"secret": {"secretName": f"{self.operator}/{self.secret}"}},
            {"configMap": {"name": "theirs"}},
            {"persistentVolumeClaim": {"claimName": "theirs"}},
            {"csi": {"driver": "hostpath.csi.k8s.io", "volumeAttributes": {"path": "/"}}},
            {"nfs": {"server": "127.0.0.1", "path": "/"}},
            {"projected": TOKEN["projected"]},
            {"emptyDir": {}, "hostPath": {"path": "/"}},
        )
        containers: tuple[Json, ...] = (
            {"capabilities": ["SYS_ADMIN"]},
            {"securityContext": PRIVILEGED},
            {"restartPolicy": "Always", "env": {"A": "b"}, "ports": [{"containerPort": 1, "hostPort": 1}]},
        )
        others = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": [self.neighbour]}]}}
        return (
            *({"volumes": [{"name": "v", **source}], "volumeMounts": mounts} for source in sources),
            {"volumes": [{"name": "v", "emptyDir": {}}], "volumeMounts": shadow},
            *({"initContainers": [{"name": "x", "image": IMAGE, **extra}]} for extra in containers),
            {"affinity": others},
            {"affinity": {"nodeName": "swerl-node", "hostNetwork": True}},
            {"topologySpreadConstraints": [{"hostPID": True}]},
            {"priorityClassName": "system-node-critical"},
            {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "theirs"}]},
            *({"labels": labels} for labels in FOREIGN_LABELS),
            *({"annotations": annotations} for annotations in ANNOTATIONS),
        )


PLACES = {  # podTemplates, each with the name of its container
    SWERLJOB: {
        "trainer/podTemplate": "ray-train",
        "trainer/headPodTemplate": "ray-head",
        "rollout/podTemplate": "ray-engine",
    },
    SWEEVAL: {"rollout/podTemplate": "ray-engine", "rollout/headPodTemplate": "ray-head"},
}
STATUS = {"phase": "Training", "attempt": 7, "rayCluster": "victim-1", "submission": "victim"}  # the server drops it
DRAWS = 4  # for each object: many draws are equal
NAMES = ("victim", "taken.eval", "victim-1", "default", "../x", "a/b", "rich", "swe-rl-operator")


def reaching_objects(kind: Kind, number: int, reach: Reach) -> list[Json]:
    """Objects of `kind`, the same ones each time: one with each value of a podTemplate, and up to `number` drawn ones.

    Those without a special name are called `x-...`.
    """
    choices = {"labels": st.sampled_from(FOREIGN_LABELS), "annotations": st.sampled_from(ANNOTATIONS)}
    metadata = st.fixed_dictionaries({}, optional=choices)
    drawn = draw_many(st.tuples(metadata, _specs(kind, reach)), DRAWS * number, reproducible=True)
    different = [*{json.dumps(each, sort_keys=True): each for each in drawn}.values()][:number]
    templated = [({}, spec) for spec in _with_templates(kind, reach)] if kind in PLACES else []
    return [
        declare(kind, name or f"x-{place}", spec, metadata) | {"status": STATUS}
        for place, ((metadata, spec), name) in enumerate(
            zip([*different, *templated], chain(NAMES, repeat("")), strict=False)
        )
    ]


def declare(kind: Kind, name: str, spec: Any, metadata: Json | None = None) -> Json:
    """An object of `kind`."""
    metadata = {"name": name, **(metadata or {})}
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _specs(kind: Kind, reach: Reach) -> st.SearchStrategy[Any]:
    honest = st.sampled_from(HONEST[kind])
    way = st.lists(st.integers(0, 9), max_size=4)
    with_fields = st.builds(_with_fields, honest, way, st.sampled_from(POD_FIELDS + reach.fields))
    with_name = st.builds(with_value, honest, way.filter(bool), st.sampled_from(reach.names))
    at_root = st.builds(_with_fields, honest, st.just([]), st.sampled_from(POD_FIELDS + reach.fields))
    found = st.one_of(with_fields, with_name, at_root)
    if kind in PLACES:
        with_template = st.builds(
            changed,
            honest,
            st.sampled_from([*PLACES[kind]]),
            st.sampled_from(reach.templates + POD_FIELDS + reach.fields),
        )
        found = st.one_of(with_template, with_template, found)
    return st.one_of(found, st.builds(_with_fields, found, way, st.sampled_from(POD_FIELDS)))


def _with_templates(kind: Kind, reach: Reach) -> Iterator[Json]:
    honest = json.loads(json.dumps(HONEST[kind][-1]))  # so that no two fields are one object
    for template, place in zip(reach.templates, cycle(PLACES[kind]), strict=False):
        yield changed(honest, place, template)
    for place, container in PLACES[kind].items():
        yield changed(honest, f"{place}/annotations", {f"{UNCONFINED}/{container}": "unconfined"})
    yield changed(honest, "rollout/resources/limits", {"rdma/hca_shared": 0})  # a device that it does not get


def _with_fields(spec: Any, way: list[int], fields: Json) -> Any:
    """`spec` with `fields` added to the object that `way` leads to through objects alone."""
    below = [key for key in sorted(spec) if isinstance(spec[key], dict)] if way else []
    if not below:
        return spec | fields
    key = below[way[0] % len(below)]
    return spec | {key: _with_fields(spec[key], way[1:], fields)}
