"""Prometheus metrics of the operator.

Guarantee: label values come from small fixed sets (verbs, kinds, outcomes), never from object names. The number of
series therefore does not grow with the number of sandboxes.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

PREFIX = "swerl_operator_"


class Metrics:
    """The shared collectors; a controller registers its own in `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.api_requests = Counter(
            PREFIX + "api_requests", "Kubernetes API requests answered.", ["verb", "code"], registry=self.registry
        )
        self.api_seconds = Histogram(
            PREFIX + "api_request_seconds", "Seconds per API request.", ["verb"], registry=self.registry
        )
        self.reconciles = Counter(
            PREFIX + "reconciles", "Reconciliations by outcome ok|error.", ["kind", "outcome"], registry=self.registry
        )
        self.reconcile_seconds = Histogram(
            PREFIX + "reconcile_seconds", "Seconds per reconciliation.", ["kind"], registry=self.registry
        )
        self.queue_depth = Gauge(PREFIX + "queue_depth", "Keys waiting for a worker.", ["kind"], registry=self.registry)
        self.queue_wait = Histogram(
            PREFIX + "queue_wait_seconds", "Seconds that a key waited for a worker.", ["kind"], registry=self.registry
        )
        self.jobs = Gauge(PREFIX + "jobs", "SweRLJobs by phase.", ["phase"], registry=self.registry)
        self.leader = Gauge(PREFIX + "leader", "1 while this process holds the Lease.", registry=self.registry)

    def api_request(self, verb: str, status: int | None, seconds: float) -> None:
        """Count a request; `status` is None where no answer came."""
        self.api_seconds.labels(verb=verb).observe(seconds)
        if status is not None:
            self.api_requests.labels(verb=verb, code=f"{status // 100}xx").inc()
