"""What runs inside the cluster from the start: CoreDNS and the KubeRay operator, from images of one static program."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from cluster import build, network, oci, storage
from cluster.errors import ClusterError
from cluster.layout import REGISTRY_NAME, Cluster

Json = dict[str, Any]
DEPLOYMENTS = (("kube-system", "coredns"), ("kuberay-system", "kuberay-operator"))
_HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
_COREFILE = """.:53 {{
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa {{
      pods insecure
      ttl 5
    }}
{forward}    cache 5
}}
"""
_IMAGES = {"pause": "pause", "coredns": "coredns", "kuberay-operator": "kuberay"}  # image -> build target


def image(cluster: Cluster, name: str) -> str:
    """Reference of `pause`, `coredns` or `kuberay-operator`; the tag names the program's content."""
    return f"{REGISTRY_NAME}/{_repository(name)}:{_tag(cluster, name)}"


def registry(cluster: Cluster) -> oci.Registry:
    """The registry as the machine sees it."""
    return oci.Registry(cluster.registry_port)


def push_images(cluster: Cluster) -> None:
    """Puts the images into the local registry unless it has them."""
    target = registry(cluster)
    for name in _IMAGES:
        if not target.has(_repository(name), _tag(cluster, name)):
            target.push_programs(_repository(name), _tag(cluster, name), {name: _program(cluster, name)}, [f"/{name}"])


def applied(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """Namespace and name of the Deployments that the cluster was given: none when it is bare."""
    return DEPLOYMENTS if _applied_digest_file(cluster).exists() else ()


def apply(cluster: Cluster) -> None:
    """Server-side apply of everything; at once when nothing changed since the last time."""
    crds = build.folder(cluster.home, "kuberay")
    items = [*_coredns(cluster), *_kuberay(cluster), *_runtime_classes(cluster), storage.storage_class()]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    digest, digest_file = hashlib.sha256(f"{crds}{text}".encode()).hexdigest(), _applied_digest_file(cluster)
    if digest_file.exists() and digest_file.read_text() == digest:
        return
    path = cluster.state / "addons.json"
    path.write_text(text)
    _kubectl(
        cluster,
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        str(path),
        "-f",
        str(crds / "crds"),
        "-f",
        str(crds / "rbac"),
    )
    digest_file.write_text(digest)


def _coredns(cluster: Cluster) -> list[Json]:
    upstream = network.nameservers(cluster.families)
    forward = f"    forward . {' '.join(upstream)}\n" if upstream else ""
    corefile = _COREFILE.format(forward=forward)
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    container = {
        "name": "coredns",
        "image": image(cluster, "coredns"),
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
        "resources": {"requests": {"memory": "32Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "securityContext": {
            **_HARDENED,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
            "runAsUser": 0,
        },
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    return [
        _object("v1", "ServiceAccount", "kube-system", "coredns"),
        _object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "coredns", rules=rules),
        _binding("coredns", "kube-system"),
        _object("v1", "ConfigMap", "kube-system", "coredns", data={"Corefile": corefile}),
        _deployment("kube-system", "coredns", {**pod, "restartPolicy": "Always"}, _sha(corefile)),
        _object(
            "v1",
            "Service",
            "kube-system",
            "kube-dns",
            spec={"clusterIP": cluster.dns_ip, "selector": {"app": "coredns"}, "ports": ports},
        ),
    ]


def _kuberay(cluster: Cluster) -> list[Json]:
    name, namespace = "kuberay-operator", "kuberay-system"
    container = {
        "name": name,
        "image": image(cluster, name),
        "args": ["--enable-leader-election=false"],
        # Its `wait-gcs-ready` reserves a fifth of a core for good; our workers wait by themselves.
        "env": [{"name": "ENABLE_INIT_CONTAINER_INJECTION", "value": "false"}],
        "securityContext": {**_HARDENED, "runAsNonRoot": True},
        "resources": {"requests": {"memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8082}, "periodSeconds": 2},
    }
    return [
        _object("v1", "Namespace", "", namespace),
        _object("v1", "ServiceAccount", namespace, name),
        _binding(name, namespace),
        _deployment(namespace, name, {"serviceAccountName": name, "containers": [container]}, ""),
    ]


def _runtime_classes(cluster: Cluster) -> list[Json]:
    """RuntimeClass of the default runtime by name, so that manifests may ask for it; gVisor's once it is built."""
    handlers = {"runc": "runc"} | ({"gvisor": "runsc"} if build.built(cluster.home, "gvisor") else {})
    return [_object("node.k8s.io/v1", "RuntimeClass", "", name, handler=handler) for name, handler in handlers.items()]


def _deployment(namespace: str, name: str, pod: Json, config: str) -> Json:
    template = {"metadata": {"labels": {"app": name}, "annotations": {"swerl.dev/config": config}}, "spec": pod}
    return _object(
        "apps/v1",
        "Deployment",
        namespace,
        name,
        spec={"selector": {"matchLabels": {"app": name}}, "strategy": {"type": "Recreate"}, "template": template},
    )


def _binding(name: str, namespace: str) -> Json:
    return _object(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "",
        name,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )


def _object(api: str, kind: str, namespace: str, name: str, **content: Any) -> Json:
    location = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **location}, **content}


def _program(cluster: Cluster, name: str) -> Path:
    target = _IMAGES[name]
    return build.build_pause(cluster.home) if target == "pause" else build.folder(cluster.home, target) / name


def _tag(cluster: Cluster, name: str) -> str:
    program = _program(cluster, name)
    return (program.name if name == "pause" else program.parent.name).rsplit("-", 1)[1]


def _repository(name: str) -> str:
    return f"swe-rl/{name}"


def _applied_digest_file(cluster: Cluster) -> Path:
    return cluster.state / "addons.applied"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kubectl(cluster: Cluster, *arguments: str) -> None:
    program = build.folder(cluster.home, "kubernetes") / "kubectl"
    command = [str(program), f"--kubeconfig={cluster.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"kubectl {arguments[0]} failed: {done.stderr.strip()[-800:]}")
