"""From Pods, namespaces and policies to one nftables table; pure.

Pods with the same policies share a chain; a verdict map finds it by address, so a thousand equal sandboxes need one
chain. Chains return on a match and drop at their end; they see packets after Service translation.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cluster.netpol.objects import ObservedObjects, Pod, Policy, applying, selects
from cluster.watch import Json

TABLE = "swerl_netpol"


@dataclass(frozen=True)
class Scope:
    """Where the rules apply."""

    pod_cidr: str
    host_ip: str  # the machine's own end of the node's uplink: it counts as the node
    uplink: str


@dataclass(frozen=True)
class Rules:
    """The changeable content of the table."""

    chains: str
    known: frozenset[str]  # addresses of Pods
    egress: Mapping[str, str]  # address -> chain
    ingress: Mapping[str, str]

    def table(self, scope: Scope) -> str:
        """Input of `nft -f` that replaces the whole table at once."""
        return (
            f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{self.chains}"
            f"  set known {{ type ipv4_addr; {_elements(sorted(self.known))} }}\n"
            f"  map egress {{ type ipv4_addr : verdict; {_elements(_jumps(self.egress))} }}\n"
            f"  map ingress {{ type ipv4_addr : verdict; {_elements(_jumps(self.ingress))} }}\n"
            f"{_hooks(scope)}}}\n"
        )

    def change_from(self, old: "Rules") -> str | None:
        """Input of `nft -f` that turns `old` into these rules by set elements alone; None when chains differ."""
        if self.chains != old.chains:
            return None
        lines = _difference("known", {ip: ip for ip in old.known}, {ip: ip for ip in self.known})
        for name, before, after in (("egress", old.egress, self.egress), ("ingress", old.ingress, self.ingress)):
            lines += _difference(name, _elements_by_address(before), _elements_by_address(after))
        return "\n".join(lines)


EMPTY = Rules("", frozenset(), {}, {})


def render(observed: ObservedObjects) -> Rules:
    """Rules of a complete observation."""
    addresses = dict(sorted(observed.addresses().items()))
    policies = sorted((observed.policies or {}).values(), key=lambda each: (each.namespace, each.name))
    chains: dict[str, str] = {}
    maps: dict[str, dict[str, str]] = {"Egress": {}, "Ingress": {}}
    for address, pod in addresses.items():
        for direction, entries in maps.items():
            isolating = applying(policies, pod, direction)
            if isolating:
                name = _chain_name(direction, pod, isolating)
                if name not in chains:
                    chains[name] = _chain(name, _Chain(direction, pod, isolating, observed, addresses).lines())
                entries[address] = name
    text = "".join(chains[name] for name in sorted(chains))
    return Rules(text, frozenset(addresses), maps["Egress"], maps["Ingress"])


@dataclass(frozen=True)
class _Chain:
    """The rules of all Pods that share `policies` with `pod` in one direction."""

    direction: str
    pod: Pod
    policies: list[Policy]
    observed: ObservedObjects
    addresses: Mapping[str, Pod]

    def lines(self) -> list[str]:
        key = "egress" if self.direction == "Egress" else "ingress"
        found = [
            f"{where}{port}"
            for policy in self.policies
            for rule in policy.spec.get(key) or []
            for where, port in self._matches(rule)
        ]
        return list(dict.fromkeys(found))

    def _matches(self, rule: Json) -> Iterator[tuple[str, str]]:
        ports = rule.get("ports") or []
        named = self.direction == "Egress" and any(isinstance(port.get("port"), str) for port in ports)
        for address, target in self._peer_matches(
            rule.get("to" if self.direction == "Egress" else "from") or [], named
        ):
            for port in ports or [None]:
                text = _port(port, target) if port is not None else ""
                if text is not None:
                    yield address, text

    def _peer_matches(self, peers: Iterable[Json], named: bool) -> Iterator[tuple[str, Pod | None]]:
        """Address match and the Pod whose named ports count (None: none do)."""
        own = None if self.direction == "Egress" else self.pod
        peers = list(peers)
        if not peers and named:
            yield from ((self._address(ip), pod) for ip, pod in self.addresses.items())
        elif not peers:
            yield "", own
        for peer in peers:
            if "ipBlock" in peer:
                block = self._block(peer["ipBlock"])
                if block:
                    yield block, own
                continue
            members = {ip: pod for ip, pod in self.addresses.items() if self._is_peer(pod, peer)}
            if named:
                yield from ((self._address(ip), pod) for ip, pod in members.items())
            elif members:
                yield self._address(f"{{ {', '.join(members)} }}"), own

    def _is_peer(self, pod: Pod, peer: Json) -> bool:
        if peer.get("namespaceSelector") is not None:
            labels = self.observed.namespace_labels(pod.namespace)
            if labels is None or not selects(peer["namespaceSelector"], labels):
                return False
        elif pod.namespace != self.pod.namespace:
            return False
        return selects(peer.get("podSelector") or {}, pod.labels)

    def _address(self, value: str) -> str:
        return f"ip {'daddr' if self.direction == 'Egress' else 'saddr'} {value} "

    def _block(self, block: Json) -> str:
        if ":" in block["cidr"]:
            return ""
        excepted = [f"!= {_network(cidr)}" for cidr in block.get("except") or [] if ":" not in cidr]
        return "".join(self._address(value) for value in (_network(block["cidr"]), *excepted))


def _port(port: Json, target: Pod | None) -> str | None:
    """nft match of one NetworkPolicyPort; None when `target` has no port of that name."""
    protocol, number = port.get("protocol", "TCP"), port.get("port")
    if number is None:
        return f"meta l4proto {protocol.lower()} "
    if isinstance(number, str):
        number = target.ports.get((number, protocol)) if target else None
        if number is None:
            return None
    last = f"-{port['endPort']}" if port.get("endPort") else ""
    return f"{protocol.lower()} dport {number}{last} "


def _network(cidr: str) -> str:
    return str(ipaddress.ip_network(cidr, strict=False))


def _chain_name(direction: str, pod: Pod, policies: list[Policy]) -> str:
    ports = sorted(pod.ports.items()) if direction == "Ingress" else []  # a named port is resolved on the Pod itself
    identity = repr((pod.namespace, [policy.name for policy in policies], ports))
    return f"{direction.lower()}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def _chain(name: str, lines: list[str]) -> str:
    return f"  chain {name} {{\n" + "".join(f"    {line}return\n" for line in lines) + "    counter drop\n  }\n"


def _hooks(scope: Scope) -> str:
    unknown = f"ip saddr {scope.pod_cidr} ip saddr != @known counter drop"
    return f"""  chain spoofed {{
    type filter hook prerouting priority -150; policy accept;
    iifname "veth*" meta nfproto ipv4 fib saddr . iif oif missing counter drop
    iifname "veth*" meta nfproto ipv6 counter drop
  }}
  chain to_node {{
    type filter hook input priority 10; policy accept;
    ct state established,related accept
    {unknown}
    ip saddr vmap @egress
  }}
  chain forwarded {{
    type filter hook forward priority 10; policy accept;
    ct state established,related accept
    iifname "{scope.uplink}" ip saddr {scope.host_ip} accept
    {unknown}
    ip daddr {scope.pod_cidr} ip daddr != @known counter drop
    ip saddr vmap @egress
    ip daddr vmap @ingress
  }}
"""


def _jumps(chain_of: Mapping[str, str]) -> list[str]:
    return list(_elements_by_address(chain_of).values())


def _elements_by_address(chain_of: Mapping[str, str]) -> dict[str, str]:
    return {address: f"{address} : jump {chain}" for address, chain in chain_of.items()}


def _elements(items: list[str]) -> str:
    return f"elements = {{ {', '.join(items)} }}" if items else ""


def _difference(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    removed = [text for address, text in before.items() if after.get(address) != text]
    new = [text for address, text in after.items() if before.get(address) != text]
    return [
        f"{verb} element inet {TABLE} {name} {{ {', '.join(items)} }}"
        for verb, items in (("delete", removed), ("add", new))
        if items
    ]
