"""The daemons of a cluster: their command lines, in the order in which they start."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import build, configs, network, pki
from cluster.families import IPV6
from cluster.layout import NODE_NAME, Cluster
from cluster.process import Daemon

_ETCD = "http://127.0.0.1:2379"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHECKOUT = Path(__file__).parents[1]
_GO_ENV = {"GOGC": "300"}  # memory is there, two cores are few: collect garbage a third as often


def registry(cluster: Cluster) -> Daemon:
    """Where images are pushed: the machine's loopback."""
    return _registry(cluster, "registry", in_node=False)


def mirror(cluster: Cluster) -> Daemon:
    """Where the node pulls: its own loopback, the same storage, read-only."""
    return _registry(cluster, "mirror", in_node=True)


def etcd(cluster: Cluster) -> Daemon:
    peer = "http://127.0.0.1:2380"
    return Daemon(
        "etcd",
        (
            str(_kubernetes(cluster) / "etcd"),
            f"--data-dir={cluster.state / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=5m",
            "--log-level=warn",
        ),
        env=_GO_ENV,
    )


def apiserver(cluster: Cluster) -> Daemon:
    keys = cluster.pki
    return Daemon(
        "apiserver",
        (
            str(_kubernetes(cluster) / "kube-apiserver"),
            f"--etcd-servers={_ETCD}",
            f"--bind-address={'::' if IPV6 in cluster.families else '0.0.0.0'}",
            f"--advertise-address={cluster.node_ip}",
            "--secure-port=6443",
            f"--tls-cert-file={keys / 'apiserver.crt'}",
            f"--tls-private-key-file={keys / 'apiserver.key'}",
            f"--client-ca-file={keys / 'ca.crt'}",
            f"--kubelet-client-certificate={keys / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={keys / 'apiserver-kubelet.key'}",
            f"--kubelet-certificate-authority={keys / 'ca.crt'}",
            f"--service-account-key-file={keys / 'sa.pub'}",
            f"--service-account-signing-key-file={keys / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={','.join(cluster.service_cidrs)}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--profiling=false",
            "--event-ttl=30m",
            "--kubelet-preferred-address-types=InternalIP",
            f"--audit-policy-file={configs.audit_policy(cluster)}",
            f"--audit-log-path={cluster.log / 'audit.log'}",
            "--audit-log-maxsize=16",
            "--audit-log-maxbackup=2",
        ),
        inputs=(keys / "apiserver.crt", configs.audit_policy(cluster)),
        env=_GO_ENV,
    )


def containerd(cluster: Cluster) -> Daemon:
    programs, config = build.folder(cluster.home, "containerd"), cluster.state / "containerd.toml"
    shims = ":".join(str(build.folder(cluster.home, name)) for name in ("runc", "gvisor"))
    return Daemon(
        "containerd",
        (str(programs / "containerd"), f"--config={config}"),
        inputs=(config,),
        env=_GO_ENV | {"PATH": f"{programs}:{shims}:{_SYSTEM_PATH}"},
    )


def controller_manager(cluster: Cluster) -> Daemon:
    keys = cluster.pki
    return Daemon(
        "controller-manager",
        (
            str(_kubernetes(cluster) / "kube-controller-manager"),
            *_client_flags(cluster, "controller-manager"),
            f"--service-account-private-key-file={keys / 'sa.key'}",
            f"--root-ca-file={keys / 'ca.crt'}",
            f"--cluster-signing-cert-file={keys / 'ca.crt'}",
            f"--cluster-signing-key-file={keys / 'ca.key'}",
            "--use-service-account-credentials",
            "--terminated-pod-gc-threshold=1000",
            "--concurrent-job-syncs=10",
        ),
    )


def scheduler(cluster: Cluster) -> Daemon:
    return Daemon("scheduler", (str(_kubernetes(cluster) / "kube-scheduler"), *_client_flags(cluster, "scheduler")))


def kubelet(cluster: Cluster) -> Daemon:
    config = cluster.state / "kubelet.json"
    return Daemon(
        "kubelet",
        (
            str(_kubernetes(cluster) / "kubelet"),
            f"--config={config}",
            f"--kubeconfig={pki.kubeconfig(cluster, 'kubelet')}",
            f"--root-dir={cluster.state / 'kubelet'}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={','.join(cluster.node_ips)}",
            "--housekeeping-interval=30s",
        ),
        inputs=(config, cluster.pki / "kubelet.crt"),
        env=_GO_ENV,
    )


def proxy(cluster: Cluster) -> Daemon:
    """It starts without the rules of an earlier process.

    kube-proxy 1.34 may leave chains of endpoints empty that it finds there, and connections to a Service are refused.
    """
    remove_rules = "for family in ip ip6; do nft delete table $family kube-proxy 2>/dev/null; done"
    return Daemon(
        "proxy",
        (
            *("sh", "-c", f'{remove_rules}; exec "$0" "$@"'),
            str(_kubernetes(cluster) / "kube-proxy"),
            f"--kubeconfig={pki.kubeconfig(cluster, 'proxy')}",
            f"--hostname-override={NODE_NAME}",
            f"--cluster-cidr={','.join(cluster.pod_cidrs)}",
            "--proxy-mode=nftables",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ),
    )


def netpol(cluster: Cluster) -> Daemon:
    return _python_daemon(
        cluster,
        "netpol",
        sorted((_CHECKOUT / "cluster" / "netpol").glob("*.py")),
        f"--socket={configs.gate_socket(cluster)}",
        f"--pod-cidr={','.join(cluster.pod_cidrs)}",
        f"--host-ip={','.join(cluster.host_ips)}",
        f"--uplink={network.UPLINK}",
    )


def storage(cluster: Cluster) -> Daemon:
    return _python_daemon(cluster, "storage", [_CHECKOUT / "cluster" / "storage.py"], f"--folder={cluster.volumes}")


# Name -> description; the order of starting, and in reverse of stopping.
ALL: dict[str, Callable[[Cluster], Daemon]] = {
    "registry": registry,
    "mirror": mirror,
    "etcd": etcd,
    "containerd": containerd,
    "apiserver": apiserver,
    "netpol": netpol,
    "controller-manager": controller_manager,
    "scheduler": scheduler,
    "storage": storage,
    "proxy": proxy,
    "kubelet": kubelet,
}


def _registry(cluster: Cluster, name: str, *, in_node: bool) -> Daemon:
    config = cluster.state / f"{name}.yml"
    return Daemon(name, ("docker-registry", "serve", str(config)), in_node=in_node, inputs=(config,))


def _python_daemon(cluster: Cluster, name: str, sources: Sequence[Path], *arguments: str) -> Daemon:
    """A program of this package, `cluster.<name>`."""
    shared = [_CHECKOUT / "cluster" / file for file in ("api.py", "watch.py")]
    return Daemon(
        name,
        (sys.executable, "-m", f"cluster.{name}", f"--server={cluster.server}", f"--pki={cluster.pki}", *arguments),
        inputs=(*sources, *shared),
        env={"PYTHONPATH": str(_CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _client_flags(cluster: Cluster, name: str) -> tuple[str, ...]:
    return (
        f"--kubeconfig={pki.kubeconfig(cluster, name)}",
        "--leader-elect=false",
        "--profiling=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--bind-address=127.0.0.1",
    )


def _kubernetes(cluster: Cluster) -> Path:
    return build.folder(cluster.home, "kubernetes")
