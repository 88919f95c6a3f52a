"""A real single-node Kubernetes on one Linux machine.

Guarantees: needs only the Python standard library (>= 3.11), so it runs before anything is installed; every verb is
idempotent. All that a cluster makes is in its state folder, its run folder, one cgroup and one network namespace.
Therefore `down` leaves nothing behind, and clusters do not interfere.
"""
