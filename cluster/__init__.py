"""A real single-node Kubernetes on one Linux machine.

Guarantees: needs only the Python standard library (>= 3.11), so it runs before anything is installed; every verb is
idempotent; everything a cluster makes lives in its state folder, its run folder, one cgroup and one network namespace,
so that `down` leaves nothing behind and clusters never meet.
"""
