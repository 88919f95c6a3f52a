"""From Pods, namespaces and policies to one nftables table; pure.

Pods with the same policies share a chain; a verdict map finds it by address, so a thousand equal sandboxes need one
chain. Chains return on a match and drop at their end; they see packets after Service translation. A family is
dropped unless the scope has it; Pods share their chains between the families, and each family has sets of its own.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cluster.families import IPV4, IPV6, SINGLE_STACK, Families, family_of
from cluster.netpol.objects import ObservedObjects, Pod, Policy, applying, selects
from cluster.watch import Json

TABLE = "swerl_netpol"


@dataclass(frozen=True)
class _FamilyTerms:
    """nftables' names for one family."""

    match: str
    type: str
    suffix: str  # of its sets


_LAYERS = {IPV4: _FamilyTerms("ip", "ipv4_addr", ""), IPV6: _FamilyTerms("ip6", "ipv6_addr", "6")}
_NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"  # IPv6's ARP: it opens no connection


@dataclass(frozen=True)
class PolicyScope:
    """Where the rules apply: one value of each family."""

    pod_cidrs: tuple[str, ...]
    host_ips: tuple[str, ...]  # the machine's own end of the node's uplink: it counts as the node
    uplink: str

    @property
    def families(self) -> Families:
        return tuple(family_of(cidr) for cidr in self.pod_cidrs)


@dataclass(frozen=True)
class Rules:
    """The changeable content of the table."""

    chains: str
    known: frozenset[str]  # addresses of Pods
    egress: Mapping[str, str]  # address -> chain
    ingress: Mapping[str, str]

    def table(self, scope: PolicyScope) -> str:
        """Input of `nft -f` that replaces the whole table at once."""
        return (
            f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{self.chains}"
            f"{''.join(self._sets(family) for family in scope.families)}{_hooks(scope)}}}\n"
        )

    def _sets(self, family: str) -> str:
        layer, known = _LAYERS[family], sorted(address for address in self.known if family_of(address) == family)
        verdicts = f"type {layer.type} : verdict;"
        return (
            f"  set known{layer.suffix} {{ type {layer.type}; {_elements(known)} }}\n"
            f"  map egress{layer.suffix} {{ {verdicts} {_elements(_jumps(self.egress, family))} }}\n"
            f"  map ingress{layer.suffix} {{ {verdicts} {_elements(_jumps(self.ingress, family))} }}\n"
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


def render(observed: ObservedObjects, families: Families = SINGLE_STACK) -> Rules:
    """Rules of a complete observation, for these families of addresses."""
    found = sorted(observed.addresses().items())
    addresses = {address: pod for address, pod in found if family_of(address) in families}
    policies = sorted((observed.policies or {}).values(), key=lambda each: (each.namespace, each.name))
    chains: dict[str, str] = {}
    maps: dict[str, dict[str, str]] = {"Egress": {}, "Ingress": {}}
    for address, pod in addresses.items():
        for direction, entries in maps.items():
            isolating = applying(policies, pod, direction)
            if isolating:
                name = _chain_name(direction, pod, isolating)
                if name not in chains:
                    chains[name] = _chain(
                        name, _Chain(direction, pod, isolating, observed, addresses, families).lines()
                    )
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
    families: Families

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
                continue
            for family in self.families:
                if of_family := [ip for ip in members if family_of(ip) == family]:
                    yield self._address(f"{{ {', '.join(of_family)} }}", family), own

    def _is_peer(self, pod: Pod, peer: Json) -> bool:
        if peer.get("namespaceSelector") is not None:
            labels = self.observed.namespace_labels(pod.namespace)
            if labels is None or not selects(peer["namespaceSelector"], labels):
                return False
        elif pod.namespace != self.pod.namespace:
            return False
        return selects(peer.get("podSelector") or {}, pod.labels)

    def _address(self, value: str, family: str | None = None) -> str:
        match = _LAYERS[family or family_of(value)].match
        return f"{match} {'daddr' if self.direction == 'Egress' else 'saddr'} {value} "

    def _block(self, block: Json) -> str:
        family = family_of(block["cidr"])
        if family not in self.families:
            return ""
        excepted = [f"!= {_network(cidr)}" for cidr in block.get("except") or [] if family_of(cidr) == family]
        return "".join(self._address(value, family) for value in (_network(block["cidr"]), *excepted))


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


def _hooks(scope: PolicyScope) -> str:
    places = list(zip(scope.families, scope.pod_cidrs, scope.host_ips, strict=True))
    spoofed = [*_spoofed_ipv4(scope), *_spoofed_ipv6(scope)]
    to_node = [_NEIGHBOURS] if IPV6 in scope.families else []
    to_node += [line for family, cidr, _ in places for line in _to_node(_LAYERS[family], cidr)]
    forwarded = [
        line for family, cidr, host in places for line in _forwarded(_LAYERS[family], cidr, host, scope.uplink)
    ]
    tracked = "ct state established,related accept"
    return (
        _hook("spoofed", "prerouting priority -150", spoofed)
        + _hook("to_node", "input priority 10", [tracked, *to_node])
        + _hook("forwarded", "forward priority 10", [tracked, *forwarded])
    )


def _hook(name: str, place: str, lines: list[str]) -> str:
    rules = "".join(f"    {line}\n" for line in lines)
    return f"  chain {name} {{\n    type filter hook {place}; policy accept;\n{rules}  }}\n"


def _spoofed_ipv4(scope: PolicyScope) -> list[str]:
    if IPV4 not in scope.families:
        return ['iifname "veth*" meta nfproto ipv4 counter drop']
    return ['iifname "veth*" meta nfproto ipv4 fib saddr . iif oif missing counter drop']


def _spoofed_ipv6(scope: PolicyScope) -> list[str]:
    """A Pod's link-local address is dropped, too: it would reach every `[::]` listener of the node over its veth."""
    if IPV6 not in scope.families:
        return ['iifname "veth*" meta nfproto ipv6 counter drop']
    cidr = scope.pod_cidrs[scope.families.index(IPV6)]
    return [
        f'iifname "veth*" {_NEIGHBOURS}',
        'iifname "veth*" meta nfproto ipv6 fib saddr . iif oif missing counter drop',
        f'iifname "veth*" ip6 saddr != {cidr} counter drop',
    ]


def _unknown(layer: _FamilyTerms, cidr: str, side: str) -> str:
    return f"{layer.match} {side} {cidr} {layer.match} {side} != @known{layer.suffix} counter drop"


def _to_node(layer: _FamilyTerms, cidr: str) -> list[str]:
    return [_unknown(layer, cidr, "saddr"), f"{layer.match} saddr vmap @egress{layer.suffix}"]


def _forwarded(layer: _FamilyTerms, cidr: str, host: str, uplink: str) -> list[str]:
    return [
        f'iifname "{uplink}" {layer.match} saddr {host} accept',
        _unknown(layer, cidr, "saddr"),
        _unknown(layer, cidr, "daddr"),
        f"{layer.match} saddr vmap @egress{layer.suffix}",
        f"{layer.match} daddr vmap @ingress{layer.suffix}",
    ]


def _jumps(chain_of: Mapping[str, str], family: str) -> list[str]:
    return [text for address, text in _elements_by_address(chain_of).items() if family_of(address) == family]


def _elements_by_address(chain_of: Mapping[str, str]) -> dict[str, str]:
    return {address: f"{address} : jump {chain}" for address, chain in chain_of.items()}


def _elements(items: list[str]) -> str:
    return f"elements = {{ {', '.join(items)} }}" if items else ""


def _difference(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    removed = [address for address, text in before.items() if after.get(address) != text]
    new = [address for address, text in after.items() if before.get(address) != text]
    return [
        f"{verb} element inet {TABLE} {name}{layer.suffix} {{ {', '.join(items)} }}"
        for family, layer in _LAYERS.items()
        for verb, addresses, texts in (("delete", removed, before), ("add", new, after))
        if (items := [texts[address] for address in addresses if family_of(address) == family])
    ]
