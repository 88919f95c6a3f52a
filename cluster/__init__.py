"""A real single-node Kubernetes on one Linux machine.

Guarantees: needs only the Python standard library (>= 3.11), so it runs before anything is installed; every verb is
idempotent. A cluster's files, processes and network are in its state folder, its run folder, one cgroup and one network
namespace, so `down` leaves nothing behind and clusters do not interfere.
"""
