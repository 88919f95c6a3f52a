"""Enforcement of networking.k8s.io/v1 NetworkPolicy on the node.

Guarantees: an address of the Pod network that is not known to belong to a Pod is dropped in both directions, so a new
Pod never sends a packet that its policies deny, and none while the enforcer is down; rule changes are atomic; replies
to allowed connections pass; the node reaches its Pods (probes), Pods reach the node's addresses only where a policy
lets them; sources are checked against spoofing; Pods have no IPv6.

Bounds: one node, IPv4, Pods with their own network namespace; connections made before a policy are not cut.
"""
