"""A trace shows a rollout from its prompt to its reward."""

from __future__ import annotations

import gzip
import http.server
import logging
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from swerl_agent.episode import Episode
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.group import GroupRequest, Rollout
from swerl_trainer.rollout.tracing import ADDRESS, RolloutTracer, Span, open_tracer, rollout_span
from swerl_trainer.rollout.worker import Worker

from .conftest import MEMBERS, Fakes, run
from .conftest import REQUEST as TWO_MEMBERS

REQUEST = GroupRequest("g7", "train", 0, 4, 3, 1.0)
SECONDS = {"wait": 5.0, "total": 30.0, "grading": 10.0}
ROLLOUT = Rollout("g7", 1, "task", valid=True, reward=1.0, resolved=True, verdict="resolved", seconds=SECONDS)
GRADED = 1_000.0


def command(start: float, end: float) -> dict[str, Any]:
    return {"step_idx": 0, "start_ts": start, "end_ts": end, "returncode": 0, "timed_out": False}


EPISODE = Episode("task", "g7", 1, commands=[command(970.0, 972.0), command(980.0, 985.0)])


def times(spans: tuple[Span, ...]) -> list[tuple[str, float, float]]:
    return [(span.name, span.start, span.end) for span in spans]


def test_parts_follow_each_other_without_a_gap() -> None:
    root = rollout_span(REQUEST, EPISODE, ROLLOUT, GRADED)
    assert (root.start, root.end, root.attributes["reward"], root.attributes["step"]) == (955.0, 1000.0, 1.0, 3)
    parts = [("sandbox", 955.0, 960.0), ("episode", 960.0, 990.0), ("grading", 990.0, 1000.0)]
    assert times(root.children) == parts
    assert times(root.children[1].children) == [
        ("model", 960.0, 970.0),
        ("command", 970.0, 972.0),
        ("model", 972.0, 980.0),
        ("command", 980.0, 985.0),
        ("model", 985.0, 990.0),
    ]


def test_rollout_without_a_verdict_has_no_grading() -> None:
    lost = Rollout("g7", 1, "task", valid=False, error_code="pod_evicted", seconds={"wait": 5.0})
    root = rollout_span(REQUEST, Episode("task", "g7", 1), lost, GRADED)
    assert times(root.children) == [("sandbox", 995.0, 1000.0), ("episode", 1000.0, 1000.0)]
    assert root.attributes["error_code"] == "pod_evicted"


def test_spans_of_a_trace_name_their_parents() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = RolloutTracer(provider)
    tracer.trace(REQUEST, EPISODE, ROLLOUT)
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans}) == 1
    names = {span.context.span_id: span.name for span in spans}
    parents = {(span.name, names[span.parent.span_id] if span.parent else "") for span in spans}
    assert {("rollout", ""), ("episode", "rollout"), ("grading", "rollout"), ("command", "episode")} <= parents
    root = next(span for span in spans if span.parent is None)
    assert root.attributes is not None and root.attributes["swerl.task"] == "task"
    assert root.end_time is not None and root.start_time is not None
    assert round((root.end_time - root.start_time) / 1e9) == 45
    tracer.close()


async def test_worker_traces_each_rollout_from_its_prompt_to_its_reward(
    dependencies: WorkerDependencies, fakes: Fakes
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    fakes.answer = "```bash\nls\n```"
    began = time.time()
    worker = Worker(replace(dependencies, tracer=RolloutTracer(provider)))
    rollouts = [await run(worker, TWO_MEMBERS, MEMBERS, index, 0) for index in MEMBERS]
    spans = exporter.get_finished_spans()
    roots = {span.attributes["swerl.index"]: span for span in spans if span.parent is None and span.attributes}
    assert roots.keys() == set(MEMBERS) and len({root.context.trace_id for root in roots.values()}) == 2
    for rollout in rollouts:
        root = roots[rollout.index]
        parts = [span for span in spans if span.context.trace_id == root.context.trace_id]
        assert {span.name for span in parts} >= {"rollout", "sandbox", "episode", "command", "grading"}
        assert root.attributes is not None and root.start_time is not None and root.end_time is not None
        assert root.attributes["swerl.reward"] == rollout.reward == 1.0
        assert (root.attributes["swerl.task"], root.attributes["swerl.step"]) == ("t-1", 1)
        assert root.end_time <= time.time_ns() and root.end_time >= began * 1e9
        assert all(root.start_time <= (span.start_time or 0) <= (span.end_time or 0) <= root.end_time for span in parts)


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps the names of the spans that it gets over OTLP."""

    names: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        content = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            self.names.extend(span.name for scope in resource.scope_spans for span in scope.spans)
        self.send_response(200)
        self.end_headers()


def test_collector_gets_the_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ADDRESS, f"http://127.0.0.1:{server.server_port}")
        tracer = open_tracer(SimpleNamespace(namespace="n", name="demo", attempt=1))
        assert tracer is not None, "the image lacks the exporter"
        tracer.trace(REQUEST, EPISODE, ROLLOUT)
        tracer.close()
        server.shutdown()
    assert {"rollout", "episode", "command", "model", "grading"} <= set(Collector.names)


def test_nothing_is_traced_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert open_tracer(None) is None  # type: ignore[arg-type]


def test_missing_exporter_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:9")
    with caplog.at_level(logging.WARNING):
        assert open_tracer(None, "opentelemetry.exporter.missing") is None  # type: ignore[arg-type]
    assert "rollouts are not traced" in caplog.text
