"""Prometheus metrics of the agent server; label values come from small fixed sets."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "swerl_server_"
SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)


class ServerMetrics:
    """The collectors of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.in_flight = Gauge(PREFIX + "in_flight", "Rollouts being made.", registry=self.registry)
        self.waiting = Gauge(PREFIX + "waiting", "Requests in line for a slot.", registry=self.registry)
        self.runs = Counter(PREFIX + "runs", "Rollouts by how they ended.", ["exit_status"], registry=self.registry)
        self.seconds = Histogram(
            PREFIX + "run_seconds", "Seconds from the slot to the answer.", buckets=SECONDS, registry=self.registry
        )
