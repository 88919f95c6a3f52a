"""The exporters of operator and driver, with their real collectors, and a job that goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from swerl_agent.episode import TokenSegment
from swerl_operator.jobs import PHASES
from swerl_operator.metrics import Metrics
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.store import GroupStore
from swerl_trainer.engines.client import EngineLoad
from swerl_trainer.metrics.catalogue import NAMES
from swerl_trainer.metrics.driver_metrics import DriverMetrics
from swerl_trainer.metrics.sinks import PrometheusSink
from swerl_trainer.metrics.step_metrics import StepMetrics as Row
from swerl_trainer.metrics.step_metrics import group_metrics, rollout_metrics, staleness_metrics
from swerl_trainer.rollout.group import GroupRequest, GroupState, Rollout, StepGroups

from tests.ports import free_port

SECONDS = {"wait": 2.0, "total": 40.0, "model": 25.0, "environment": 10.0, "exec": 0.2, "grading": 6.0}
USAGE = {"requests": 4, "latency": 8, "queue": 1, "first_token": 2, "prompt_tokens": 90, "completion_tokens": 30}
WAITS = dict.fromkeys(("queue", "schedule", "prepare", "pull", "start"), 1.5)
CONTROLLERS = ("SweRLJob", "SweSandbox")


def rollout(index: int, *, valid: bool = True, resolved: bool = False) -> Rollout:
    """An episode with everything that a metric looks at."""
    return Rollout(
        "g1", index, "task", valid=valid, reward=1.0 if resolved else -1.0, resolved=resolved,
        verdict="resolved" if resolved else "unresolved" if valid else "infra_error", exit_status="submitted",
        patch_source="submission", error_code="" if valid else "pod_evicted", turns=4, commands=3, timeouts=1,
        exec_retries=1, handshake_errors=1, suspicions=frozenset({"network"}), seconds=SECONDS, usage=USAGE,
        waits=WAITS, segments=[TokenSegment([5, 6, 7], [0, 1, 1], weight_versions=[("1", 1, 3)])],
    )  # fmt: skip


ROLLOUTS = (rollout(0, resolved=True), rollout(1), rollout(2, valid=False))


def step_row() -> Row:
    """The metrics of a step: those of the episodes as the trainer computes them, all others of the catalogue."""
    others = {name: 0.25 for name in NAMES if "<" not in name}
    group = GroupState(GroupRequest("g1", "train", 0, 2, 1, 1.0), 0, rollouts={0: ROLLOUTS[0], 1: ROLLOUTS[0]})
    groups = group_metrics(StepGroups((), (group,), {"equal_rewards": 2}, started=1))
    return others | rollout_metrics(ROLLOUTS) | groups | staleness_metrics(ROLLOUTS, 2)


@dataclass
class Exporters:
    """An operator with a leader, and the driver of the job `demo`."""

    operator: Metrics = field(default_factory=Metrics)
    driver: DriverMetrics = field(default_factory=lambda: DriverMetrics("demo", {"trainer": 4.0, "engine": 4.0}))

    def __post_init__(self) -> None:
        self.sandboxes = SandboxMetrics(self.operator.registry, GroupStore())
        self.driver_port = free_port()
        self.sink = PrometheusSink(self.driver, self.driver_port)
        self.steps = 0
        self.operator.leader.set(1)
        self.go_on()

    @property
    def registries(self) -> tuple[CollectorRegistry, CollectorRegistry]:
        """What the two exporters answer with."""
        return self.operator.registry, self.driver.registry

    def labels(self) -> dict[str, frozenset[str]]:
        """Every sample name of both exporters, and its labels."""
        found: dict[str, frozenset[str]] = {}
        for registry in self.registries:
            for sample in (sample for family in registry.collect() for sample in family.samples):
                found[sample.name] = found.get(sample.name, frozenset()) | sample.labels.keys()
        return found

    def go_on(self) -> None:
        """One more step of the job, with what the operator does meanwhile."""
        self.steps += 1
        self._operate()
        for each in ROLLOUTS:
            self.driver.episode("train", each)
            self.driver.episode("evaluation", each)
        self.driver.groups({"train/running": 3, "train/kept": 1})
        self.driver.counts({"pending": 2, "ready": 6, "grading": 1, "api_writes": 7 * self.steps})
        self.driver.engines([EngineLoad(5, 2, 0.5)])
        self.sink.write("step", self.steps, step_row())
        self.sink.write("supervised", 1, {"train/loss": 0.5})
        held_out = {f"eval/{name}": value for name, value in rollout_metrics(ROLLOUTS).items()}
        self.sink.write("evaluation", 1, held_out | {"eval/resolved_rate": 0.5, "eval/seconds": 60.0})

    def _operate(self) -> None:
        operator, sandboxes = self.operator, self.sandboxes
        for verb in ("GET", "POST", "PATCH"):
            operator.api_request(verb, 200, 0.01)
        for kind in CONTROLLERS:
            operator.queue_depth.labels(kind=kind).set(2)
            operator.queue_wait.labels(kind=kind).observe(0.02)
            operator.reconcile_seconds.labels(kind=kind).observe(0.05)
            operator.reconciles.labels(kind=kind, outcome="ok").inc()
        for phase in PHASES:
            operator.jobs.labels(phase=phase).set(phase == "Training")
        sandboxes.start_seconds.observe(1.5)
        sandboxes.cpu_seconds.inc(3.0)
        sandboxes.writes.labels(verb="create_pod").inc(8)
        sandboxes.groups_ended.labels(reason="Completed").inc()
        sandboxes.isolation_checks.labels(outcome="passed").inc()

    def close(self) -> None:
        self.sink.close()
