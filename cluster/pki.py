"""Certificates and kubeconfigs of one cluster, made once and kept in its state folder.

Guarantees: keys are readable by root only; what exists is left as it is.
"""

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import NODE_NAME, Cluster

_DAYS = "3650"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class _Identity:
    name: str
    user: str
    group: str = ""
    names: tuple[str, ...] = ()  # subject alternative names beside the name itself
    kubeconfig: bool = True


def make(cluster: Cluster) -> None:
    """Certificate authority, one certificate for each component, the service-account key, kubeconfigs."""
    cluster.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = cluster.pki / "ca.crt"
    if not authority.exists():
        _make_authority(cluster)
    for identity in _identities(cluster):
        _make_certificate(cluster, identity)
        if identity.kubeconfig:
            _write_kubeconfig(cluster, identity.name)
    _make_service_account_key(cluster)
    _write_admin_kubeconfig(cluster)


def kubeconfig(cluster: Cluster, name: str) -> Path:
    """Kubeconfig of one component."""
    return cluster.pki / f"{name}.kubeconfig"


def _identities(cluster: Cluster) -> list[_Identity]:
    service = "kubernetes.default.svc"
    served = (
        "DNS:localhost",
        "DNS:kubernetes",
        "DNS:kubernetes.default",
        f"DNS:{service}",
        f"DNS:{service}.cluster.local",
        "IP:127.0.0.1",
        f"IP:{cluster.kubernetes_ip}",
        *(f"IP:{address}" for address in cluster.node_ips),
    )
    return [
        _Identity("apiserver", "kube-apiserver", names=served, kubeconfig=False),
        _Identity("apiserver-kubelet", "apiserver-kubelet", "system:masters", kubeconfig=False),
        _Identity("admin", "admin", "system:masters"),
        _Identity("controller-manager", "system:kube-controller-manager"),
        _Identity("scheduler", "system:kube-scheduler"),
        _Identity("proxy", "system:kube-proxy"),
        _Identity("netpol", "swerl:netpol", "system:masters"),
        _Identity("storage", "swerl:storage", "system:masters"),
        _Identity(
            "kubelet",
            f"system:node:{NODE_NAME}",
            "system:nodes",
            (f"DNS:{NODE_NAME}", "IP:127.0.0.1", *(f"IP:{address}" for address in cluster.node_ips)),
        ),
    ]


def _make_authority(cluster: Cluster) -> None:
    """A certificate authority that strict verifiers accept, too (RFC 5280, as Python 3.13 checks it)."""
    settings = cluster.pki / "ca.cnf"
    settings.write_text(
        "[req]\ndistinguished_name=dn\nx509_extensions=authority\n[dn]\n[authority]\nbasicConstraints=critical,CA:TRUE\n"
        "keyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
    )
    output = ("-keyout", "ca.key", "-out", "ca.crt.part", "-days", _DAYS, "-subj", f"/CN={cluster.label}-ca")
    _openssl(cluster.pki, "req", "-x509", "-config", settings.name, *_KEY, *output)
    settings.unlink()
    (cluster.pki / "ca.crt.part").rename(cluster.pki / "ca.crt")


def _make_certificate(cluster: Cluster, identity: _Identity) -> None:
    certificate = cluster.pki / f"{identity.name}.crt"
    if certificate.exists():
        return
    names = ",".join(identity.names or (f"DNS:{identity.name}",))
    settings = cluster.pki / f"{identity.name}.cnf"
    settings.write_text(
        "[req]\ndistinguished_name=dn\nx509_extensions=leaf\n[dn]\n[leaf]\nbasicConstraints=critical,CA:FALSE\n"
        "keyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\n"
        f"extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName={names}\n"
    )
    subject = f"/O={identity.group}/CN={identity.user}" if identity.group else f"/CN={identity.user}"
    signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-days", _DAYS)
    output = ("-keyout", f"{identity.name}.key", "-out", f"{identity.name}.crt.part")
    _openssl(cluster.pki, "req", "-x509", "-config", settings.name, *signer, *_KEY, "-subj", subject, *output)
    settings.unlink()
    (cluster.pki / f"{identity.name}.crt.part").rename(certificate)


def _make_service_account_key(cluster: Cluster) -> None:
    if not (cluster.pki / "sa.pub").exists():
        _openssl(cluster.pki, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")
        _openssl(cluster.pki, "ec", "-in", "sa.key", "-pubout", "-out", "sa.pub.part")
        (cluster.pki / "sa.pub.part").rename(cluster.pki / "sa.pub")


def _write_kubeconfig(cluster: Cluster, name: str) -> None:
    path = kubeconfig(cluster, name)
    if path.exists():
        return
    path.touch(mode=0o600)
    path.write_text(f"""apiVersion: v1
kind: Config
clusters:
- name: {cluster.label}
  cluster:
    server: {cluster.server}
    certificate-authority-data: {_encoded(cluster.pki / "ca.crt")}
users:
- name: {name}
  user:
    client-certificate-data: {_encoded(cluster.pki / f"{name}.crt")}
    client-key-data: {_encoded(cluster.pki / f"{name}.key")}
contexts:
- name: {cluster.label}
  context: {{cluster: {cluster.label}, user: {name}}}
current-context: {cluster.label}
""")


def _write_admin_kubeconfig(cluster: Cluster) -> None:
    if not cluster.kubeconfig.exists():
        cluster.kubeconfig.touch(mode=0o600)
        cluster.kubeconfig.write_bytes(kubeconfig(cluster, "admin").read_bytes())


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True, umask=0o077)
    if done.returncode:
        raise ClusterError(f"`openssl {' '.join(arguments)}` failed in {folder}: {done.stderr.strip()[-400:]}")
