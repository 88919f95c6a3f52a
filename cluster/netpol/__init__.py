"""Enforcement of networking.k8s.io/v1 NetworkPolicy on the node.

Guarantees: packets of an address in the Pod network that belongs to no known Pod are dropped in both directions. A new
Pod therefore never sends a packet that its policies deny, and none while the enforcer is down. Rule changes are atomic;
replies to allowed connections pass; the node reaches its Pods (probes); Pods reach the node's addresses only where a
policy allows it; sources are checked against spoofing. Pods have IPv6 only in clusters with that family, under the same
rules.

Bounds: one node, Pods with their own network namespace; connections made before a policy are not cut.
"""
