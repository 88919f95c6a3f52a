"""IP families of a cluster, named as Kubernetes names them (`ipFamilies`): IPv4, both with IPv4 first, or IPv6."""

import ipaddress
import json
import os
import subprocess
from pathlib import Path

from cluster.errors import ClusterError

Families = tuple[str, ...]
IPV4, IPV6 = "IPv4", "IPv6"
SINGLE_STACK: Families = (IPV4,)
DUAL_STACK: Families = (IPV4, IPV6)
IPV6_ONLY: Families = (IPV6,)
_CHOICES = SINGLE_STACK, DUAL_STACK, IPV6_ONLY
ULA_PREFIX = "fd73:7765:726c"  # RFC 4193, of this project's clusters: "swerl" in ASCII
_VARIABLE = "SWERL_IP_FAMILIES"
_IPV6_SETTINGS = Path("/proc/sys/net/ipv6")


def requested() -> Families | None:
    """`$SWERL_IP_FAMILIES`, None where it is not set; raises ClusterError for other families than those above."""
    text = os.environ.get(_VARIABLE)
    if not text:
        return None
    families = tuple(part.strip() for part in text.split(","))
    if families not in _CHOICES:
        raise ClusterError(f"{_VARIABLE}={text}: use {' or '.join(','.join(choice) for choice in _CHOICES)}")
    return families


def check_kernel(families: Families) -> None:
    """Raises ClusterError where the machine's kernel lacks one of the families."""
    if IPV6 in families and not _IPV6_SETTINGS.exists():
        raise ClusterError(f"the kernel has no IPv6 ({_IPV6_SETTINGS} does not exist): unset {_VARIABLE}")


def family_of(address: str) -> str:
    """The family of an address or network."""
    return IPV6 if ":" in address else IPV4


def url_host(address: str) -> str:
    """The address as URLs have it: one of IPv6 in brackets."""
    return f"[{address}]" if family_of(address) == IPV6 else address


def routed_networks(family: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Networks of this family that the machine has routes to, but for the default route."""
    option = "-6" if family == IPV6 else "-4"
    routes = subprocess.run(["ip", option, "-j", "route"], capture_output=True, text=True, check=True).stdout
    names = [route["dst"] for route in json.loads(routes or "[]")]
    return [ipaddress.ip_network(name, strict=False) for name in names if name != "default"]
