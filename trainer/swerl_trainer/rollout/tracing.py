"""OpenTelemetry traces of rollouts, from the prompt to the reward.

Guarantees: without a collector's address nothing is imported; a trace is made of what a complete rollout recorded, so
it costs no episode any time; a collector that does not answer delays nothing.
"""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from swerl_agent.episode import Episode
from swerl_trainer.job import Job
from swerl_trainer.rollout.group import GroupRequest, Rollout

logger = logging.getLogger(__name__)

ADDRESS = "OTEL_EXPORTER_OTLP_ENDPOINT"  # OpenTelemetry's own variable, in spec.trainer.env
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
Attribute = str | int | float | bool


@dataclass(frozen=True)
class Span:
    """A part of a rollout, in epoch seconds."""

    name: str
    start: float
    end: float
    attributes: dict[str, Attribute] = field(default_factory=dict)
    children: tuple[Span, ...] = ()


def rollout_span(request: GroupRequest, episode: Episode, rollout: Rollout, graded: float) -> Span:
    """The rollout that was graded at `graded`: wait for the sandbox, episode with its commands, grading.

    The time before a command, since the one before it, is that of the model.
    """
    seconds = rollout.seconds
    ended = graded - seconds.get("grading", 0.0)
    began = ended - seconds.get("total", 0.0)
    declared = began - seconds.get("wait", 0.0)
    parts = [
        Span("sandbox", declared, began),
        Span("episode", began, ended, children=(*_turns(episode, began, ended),)),
    ]
    if rollout.verdict:
        parts.append(Span("grading", ended, graded, {"verdict": rollout.verdict, "cached": rollout.cached}))
    about: dict[str, Attribute] = {
        "step": request.step, "purpose": request.purpose, "group": request.id, "index": rollout.index,
        "task": rollout.instance_id, "exit_status": rollout.exit_status, "error_code": rollout.error_code,
        "reward": rollout.reward, "resolved": rollout.resolved, "turns": rollout.turns,
    }  # fmt: skip
    return Span("rollout", declared, graded, about, tuple(parts))


def _turns(episode: Episode, began: float, ended: float) -> Iterator[Span]:
    """Commands, and between them the model."""
    commands = [
        Span(
            "command",
            record["start_ts"],
            record["end_ts"],
            {"turn": record["step_idx"], "returncode": record["returncode"], "timed_out": record["timed_out"]},
        )
        for record in episode.commands
    ]
    bounds = [Span("", began, began), *commands, Span("", ended, ended)]
    for before, after in pairwise(bounds):
        if after.start > before.end:
            yield Span("model", before.end, after.start)
        if after.name:
            yield after


class RolloutTracer:
    """Gives spans to an OpenTelemetry `provider` (TracerProvider), which sends them in a thread of its own."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("swe-rl")
        self._api: Any = importlib.import_module("opentelemetry.trace")

    def trace(self, request: GroupRequest, episode: Episode, rollout: Rollout) -> None:
        """Trace a rollout that was graded now."""
        self._record(rollout_span(request, episode, rollout, time.time()), None)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _record(self, span: Span, context: Any) -> None:
        attributes = {f"swerl.{name}": value for name, value in span.attributes.items()}
        recorded = self._tracer.start_span(
            span.name, context=context, start_time=int(span.start * 1e9), attributes=attributes
        )
        for child in span.children:
            self._record(child, self._api.set_span_in_context(recorded))
        recorded.end(end_time=int(span.end * 1e9))


def open_tracer(job: Job, exporter_module: str = EXPORTER) -> RolloutTracer | None:
    """A tracer if the environment names a collector and OpenTelemetry's exporter is installed; else None."""
    if not os.environ.get(ADDRESS):
        return None
    try:
        exporter: Any = importlib.import_module(exporter_module)
        sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
        export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
        resources: Any = importlib.import_module("opentelemetry.sdk.resources")
    except ImportError as error:
        logger.warning("rollouts are not traced: %s; install opentelemetry-exporter-otlp-proto-http", error)
        return None
    about = {"service.name": "swe-rl", "k8s.namespace.name": job.namespace, "swerl.job": job.name}
    provider = sdk.TracerProvider(resource=resources.Resource.create(about | {"swerl.attempt": job.attempt}))
    provider.add_span_processor(export.BatchSpanProcessor(exporter.OTLPSpanExporter()))
    return RolloutTracer(provider)
