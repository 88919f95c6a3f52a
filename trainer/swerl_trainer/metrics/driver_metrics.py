"""Counters of a driver, for its whole attempt: episodes, commands, gradings, queues, GPUs.

Guarantees: every label value comes from a small fixed set; an episode counts once, also one whose group was dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from swerl_agent.tasks import Purpose
from swerl_api import SweRLJobSpec
from swerl_trainer.engines.client import REQUESTS, EngineLoad
from swerl_trainer.metrics.catalogue import JOB_LABEL
from swerl_trainer.rollout.group import GroupPhase, Rollout

PREFIX = "swerl_driver_"
SECONDS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
# Parts of an episode's time by key of `Rollout.seconds`.
PARTS = {"wait": "sandbox", "model": "model", "environment": "commands", "exec": "transport", "grading": "grading"}
PURPOSES: tuple[Purpose, ...] = ("train", "evaluation")
OUTCOMES = ("resolved", "unresolved", "infrastructure")


def gpus_by_role(spec: SweRLJobSpec) -> dict[str, float]:
    """GPUs that the job holds while its driver runs; colocated engines use those of the trainer."""
    trainer, rollout = spec.trainer, spec.rollout
    roles = {"trainer": float(trainer.replicas * trainer.gpus)}
    if not spec.colocate:
        roles["engine"] = float(rollout.engines * rollout.gpus_per_engine)
    if spec.judge is not None:
        roles["judge"] = float(spec.judge.engines * spec.judge.gpus_per_engine)
    return roles


class DriverMetrics:
    """The collectors of one attempt, in `registry`; `gpus`: GPUs held, by role."""

    def __init__(self, job: str, gpus: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.job = job
        self.registry = CollectorRegistry()
        self.registry.register(_GpuSeconds(job, gpus, clock))
        self._episodes = self._counter(
            "episodes", "Graded episodes by outcome resolved|unresolved|infrastructure.", "purpose", "outcome"
        )
        self._tokens = self._counter("sampled_tokens", "Tokens that the policy sampled.", "purpose")
        self._commands = self._counter("commands", "Commands in sandboxes by outcome finished|timed_out.", "outcome")
        self._faults = self._counter(
            "exec_faults", "Streams to sandboxes by fault stream_lost|handshake_failed.", "fault"
        )
        self._gradings = self._counter("gradings", "Verdicts, from Jobs and from the cache.", "verdict", "cached")
        self._writes = self._counter("api_writes", "Writes of the rollout workers to the Kubernetes API.")
        self._seconds = Histogram(
            PREFIX + "episode_seconds",
            f"Seconds of an episode by part {'|'.join(PARTS.values())}; transport is a part of commands.",
            [JOB_LABEL, "part"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._groups = self._gauge("groups", "Groups of the dispatcher by phase.", "purpose", "phase")
        self._sandboxes = self._gauge("sandboxes", "Sandboxes of the job by state pending|ready.", "state")
        self._grading = self._gauge("gradings_running", "Patches that are being graded.")
        self._requests = self._gauge("engine_requests", "Requests at all engines by state running|waiting.", "state")
        self._cache = self._gauge("engine_cache_usage", "Share of the fullest engine's KV cache in use.")
        self._last_step = self._gauge("last_step_timestamp_seconds", "When the newest step ended; at first the start.")
        self._last_step.labels(job).set_to_current_time()
        self._api_writes = 0
        for purpose, outcome in product(PURPOSES, OUTCOMES):
            self._episodes.labels(job, purpose, outcome)  # from 0 on, for Prometheus sees no increase in a first value

    def episode(self, purpose: Purpose, rollout: Rollout) -> None:
        """Count a graded episode."""
        outcome = "infrastructure" if not rollout.valid else "resolved" if rollout.resolved else "unresolved"
        self._episodes.labels(self.job, purpose, outcome).inc()
        self._tokens.labels(self.job, purpose).inc(rollout.sampled_tokens)
        self._commands.labels(self.job, "finished").inc(max(0, rollout.commands - rollout.timeouts))
        self._commands.labels(self.job, "timed_out").inc(rollout.timeouts)
        self._faults.labels(self.job, "stream_lost").inc(rollout.exec_retries)
        self._faults.labels(self.job, "handshake_failed").inc(rollout.handshake_errors)
        if rollout.verdict:
            self._gradings.labels(self.job, rollout.verdict, str(rollout.cached).lower()).inc()
        for key, part in PARTS.items():
            if key in rollout.seconds:
                self._seconds.labels(self.job, part).observe(rollout.seconds[key])

    def groups(self, load: Mapping[str, int]) -> None:
        """Set the groups by `purpose/phase`; those that `load` lacks are 0."""
        for purpose in PURPOSES:
            for phase in (each.name.lower() for each in GroupPhase if each is not GroupPhase.CLOSED):
                self._groups.labels(self.job, purpose, phase).set(load.get(f"{purpose}/{phase}", 0))

    def counts(self, counts: Mapping[str, int]) -> None:
        """Set what the workers count: sandboxes `pending` and `ready`, patches in `grading`, `api_writes`."""
        for state in ("pending", "ready"):
            self._sandboxes.labels(self.job, state).set(counts[state])
        self._grading.labels(self.job).set(counts["grading"])
        self._writes.labels(self.job).inc(max(0, counts["api_writes"] - self._api_writes))
        self._api_writes = counts["api_writes"]  # falls when a worker is replaced

    def engines(self, loads: Collection[EngineLoad]) -> None:
        """Set what the engines do that answer; without one, what they last did stays."""
        if not loads:
            return
        for state in REQUESTS:
            self._requests.labels(self.job, state).set(sum(getattr(load, state) for load in loads))
        self._cache.labels(self.job).set(max(load.cache for load in loads))

    def step_ended(self) -> None:
        """A training step ended now."""
        self._last_step.labels(self.job).set_to_current_time()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, [JOB_LABEL, *labels], registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, text, [JOB_LABEL, *labels], registry=self.registry)


class _GpuSeconds(Collector):
    """Counts at each scrape."""

    def __init__(self, job: str, gpus: Mapping[str, float], clock: Callable[[], float]) -> None:
        self._job, self._gpus, self._clock = job, dict(gpus), clock
        self._began = clock()

    def collect(self) -> Iterator[CounterMetricFamily]:
        seconds = CounterMetricFamily(
            PREFIX + "gpu_seconds",
            "Seconds since the driver's start times GPUs, by role trainer|engine|judge.",
            labels=[JOB_LABEL, "role"],
        )
        for role, gpus in self._gpus.items():
            seconds.add_metric([self._job, role], gpus * (self._clock() - self._began))
        yield seconds
