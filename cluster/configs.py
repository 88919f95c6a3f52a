"""Configuration files of the components, as text that follows from the cluster alone."""

import json
from pathlib import Path

from cluster import build, network
from cluster.families import IPV4, IPV6
from cluster.layout import REGISTRY_NAME, REGISTRY_PORT, Cluster

_MIRROR = f"127.0.0.1:{REGISTRY_PORT}"  # in the node's namespace: the same storage, read-only
_CNI_PROGRAMS = "/usr/lib/cni"
_CAP_SYS_RESOURCE = 24
_DEFAULT_ROUTES = {IPV4: "0.0.0.0/0", IPV6: "::/0"}
_AUDIT_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    resources:
      - group: ""
        resources: [pods/exec, pods/attach, pods/portforward]
  - level: None
"""


def write(cluster: Cluster, *, pause_image: str) -> None:
    """Writes every file that changed."""
    files = {
        cluster.state / "registry.yml": registry(cluster, f"127.0.0.1:{cluster.registry_port}", read_only=False),
        cluster.state / "mirror.yml": registry(cluster, _MIRROR, read_only=True),
        cluster.state / "containerd.toml": containerd(cluster, pause_image),
        cluster.state / "certs.d" / REGISTRY_NAME / "hosts.toml": _hosts(f"http://{_MIRROR}"),
        cluster.state / "certs.d" / "docker.io" / "hosts.toml": _hosts("https://registry-1.docker.io"),
        cluster.state / "cni" / "10-swerl.conflist": cni(cluster),
        cluster.state / "kubelet.json": kubelet(cluster),
        audit_policy(cluster): _AUDIT_POLICY,
        cluster.state / "runsc.toml": runsc(cluster),
        cluster.state / "resolv.conf": _resolv_conf(cluster),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _resolv_conf(cluster: Cluster) -> str:
    return "".join(f"nameserver {address}\n" for address in network.nameservers(cluster.families))


def registry(cluster: Cluster, address: str, *, read_only: bool) -> str:
    return f"""version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {json.dumps(str(cluster.registry_storage))}}}
  delete: {{enabled: true}}
  maintenance: {{uploadpurging: {{enabled: false}}, readonly: {{enabled: {str(read_only).lower()}}}}}
http: {{addr: "{address}"}}
"""


def containerd(cluster: Cluster, pause_image: str) -> str:
    state = cluster.state
    return f"""version = 3
root = "{state / "containerd"}"
state = "{cluster.run / "containerd"}"
disabled_plugins = [
  "io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
  address = "{cluster.containerd_socket}"

[debug]
  level = "warn"

[plugins.'io.containerd.internal.v1.opt']
  path = "{state / "opt"}"

# Each unmount of a container, and each write to the database, would wait for the disk to write down all that it has.
# What is here can be pulled again; a machine that stops on a sudden has lost its containers anyway.
[plugins.'io.containerd.snapshotter.v1.overlayfs']
  mount_options = ["volatile"]

[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true

[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  discard_unpacked_layers = true
  use_local_image_pull = true
  max_concurrent_downloads = 4
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause_image}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{state / "certs.d"}"

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = {str(not _may_lower_oom_score()).lower()}
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{_CNI_PROGRAMS}", "{build.folder(cluster.home, "gate")}"]
    conf_dir = "{state / "cni"}"
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{build.folder(cluster.home, "runc") / "runc"}"
        Root = "{cluster.run / "runc"}"
        SystemdCgroup = false
{_runsc_handler(cluster)}"""


def _runsc_handler(cluster: Cluster) -> str:
    """gVisor's, once its programs are built: `python3 -m cluster build gvisor`."""
    if not build.built(cluster.home, "gvisor"):
        return ""
    return f"""
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]
      runtime_type = "io.containerd.runsc.v1"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc.options]
        TypeUrl = "io.containerd.runsc.v1.options"
        ConfigPath = "{cluster.state / "runsc.toml"}"
"""


def runsc(cluster: Cluster) -> str:
    return f"""binary_name = "{build.folder(cluster.home, "gvisor") / "runsc"}"
root = "{cluster.run / "runsc"}"
[runsc_config]
  platform = "systrap"
"""


def audit_policy(cluster: Cluster) -> Path:
    """The apiserver's audit policy: exec, attach and port-forward only, because all requests would cost too much."""
    return cluster.state / "audit-policy.yaml"


def cni(cluster: Cluster) -> str:
    """A routed veth for each Pod, host ports, and the gate that holds a Pod until its policies are in force."""
    return json.dumps(
        {
            "cniVersion": "1.0.0",
            "name": cluster.label,
            "plugins": [
                {
                    "type": "ptp",
                    "ipMasq": False,  # one rule of the node's uplink does it for all
                    "mtu": network.mtu(),
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": cidr}] for cidr in cluster.pod_cidrs],
                        "routes": [{"dst": _DEFAULT_ROUTES[family]} for family in cluster.families],
                        "dataDir": str(cluster.run / "cni"),
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
                {"type": "gate", "socket": str(gate_socket(cluster))},
            ],
        },
        indent=2,
    )


def gate_socket(cluster: Cluster) -> Path:
    return cluster.run / "netpol.sock"


def kubelet(cluster: Cluster) -> str:
    """KubeletConfiguration: many small Pods on one node, nothing evicted but to save the machine, images kept."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "x509": {"clientCAFile": str(cluster.pki / "ca.crt")},
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(cluster.pki / "kubelet.crt"),
            "tlsPrivateKeyFile": str(cluster.pki / "kubelet.key"),
            "address": cluster.node_ip,
            "healthzBindAddress": "127.0.0.1",
            "containerRuntimeEndpoint": f"unix://{cluster.containerd_socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{cluster.label}",
            "cgroupsPerQOS": True,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [cluster.dns_ip],
            "clusterDomain": "cluster.local",
            "resolvConf": str(cluster.state / "resolv.conf"),
            "podLogsDir": str(cluster.state / "pod-logs"),
            "containerLogMaxSize": "20Mi",
            "containerLogMaxFiles": 3,
            "volumePluginDir": str(cluster.state / "volume-plugins"),
            "maxPods": 250,
            "podPidsLimit": 4096,
            "configMapAndSecretChangeDetectionStrategy": "Cache",  # a watch per object is dear for Pods of seconds
            "serializeImagePulls": False,
            "maxParallelImagePulls": 4,
            "registryPullQPS": 0,
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi"},
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "1m",
            "syncFrequency": "30s",
        },
        indent=2,
    )


def _hosts(server: str) -> str:
    """The mirror first, so that an image that was built here needs no host in its name; then `server`."""
    return f'server = "{server}"\n[host."http://{_MIRROR}"]\n  capabilities = ["pull", "resolve"]\n'


def _may_lower_oom_score() -> bool:
    """False in machines without CAP_SYS_RESOURCE, where runc cannot start a Pod with a negative score."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return False
