"""Sinks of metrics: JSONL, TensorBoard, Prometheus, wandb.

Guarantees: after a resume the JSONL file holds one row per step, because rows of repeated steps are removed first; a
row that cannot be written leaves the others unchanged, and is written before the next one; a sink that fails is logged
and never stops training; a slow one delays the caller, not the other tasks of its event loop.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from prometheus_client import start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from swerl_agent.storage import Journal, write_atomic
from swerl_api.addresses import any_host
from swerl_api.names import METRICS_PORT
from swerl_trainer.events import SLOW_VOLUME, SLOW_VOLUME_SECONDS, event
from swerl_trainer.metrics.catalogue import JOB_LABEL, STEP_GAUGES, gauge_of
from swerl_trainer.metrics.driver_metrics import DriverMetrics

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Writes the metrics of one step."""

    def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """`kind`: step, supervised or evaluation."""
        ...

    def close(self) -> None: ...


class JsonlSink:
    """One JSON object per line: kind, step, attempt, time, and the metrics. The file belongs to one job."""

    def __init__(self, path: Path, *, attempt: int, keep: Mapping[str, int]) -> None:
        """`keep`: by kind, the last step whose row stays; later steps are repeated."""
        self._attempt = attempt
        self._journal = Journal(path, dict)
        self._unwritten: list[dict[str, Any]] = []
        if path.is_file():
            kept = [row for row in rows(path) if row["step"] <= keep.get(row["kind"], -1)]
            write_atomic({path: [f"{json.dumps(row)}\n".encode() for row in kept]})

    def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Append one row, and those that could not be written before, and flush them to disk."""
        self._unwritten.append(
            {"kind": kind, "step": step, "attempt": self._attempt, "time": round(time.time(), 3), **metrics}
        )
        self._write_all()

    def close(self) -> None:
        """Append the rows that could not be written before."""
        self._write_all()

    def _write_all(self) -> None:
        while self._unwritten:
            self._journal.append(self._unwritten[0])
            del self._unwritten[0]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Complete rows of a JSONL file; an incomplete last line is skipped."""
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "step" in row and "kind" in row:
            yield row


class TensorBoardSink:
    """Event files; repeated steps replace the earlier ones."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Add one scalar per metric."""
        for name, value in metrics.items():
            self._writer.add_scalar(name if kind == "step" else f"{kind}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is buffered."""
        self._writer.close()


class PrometheusSink(Collector):
    """The newest row of each kind as gauges (`catalogue.gauge_of`), and the driver's counters."""

    def __init__(self, driver: DriverMetrics, port: int = METRICS_PORT) -> None:
        self.port = port
        self._driver = driver
        self._rows: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()
        driver.registry.register(self)
        self._server, _ = start_http_server(port, any_host(), registry=driver.registry)

    def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Keep the row for the next scrape, in place of the row before of its kind."""
        with self._lock:
            self._rows[kind] = {STEP_GAUGES[kind]: float(step), **metrics}
        if kind != "evaluation":
            self._driver.step_ended()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family per gauge, with a sample per value of its label."""
        with self._lock:
            values = {name: value for kind in STEP_GAUGES for name, value in self._rows.get(kind, {}).items()}
        found: dict[str, GaugeMetricFamily] = {}
        for name, value in values.items():
            gauge = gauge_of(name)
            text = f"{gauge.metric} of the newest step"
            labels = [JOB_LABEL, *gauge.labels]
            family = found.setdefault(gauge.family, GaugeMetricFamily(gauge.family, text, labels=labels))
            family.add_metric([self._driver.job, *gauge.labels.values()], value)
        yield from found.values()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class WandbSink:
    """A wandb run that continues over attempts; used when wandb is installed and WANDB_API_KEY is given."""

    def __init__(self, job: str, run: str, config: Mapping[str, Any]) -> None:
        wandb: Any = importlib.import_module("wandb")
        self._run: Any = wandb.init(project="swe-rl", name=job, id=run, resume="allow", config=dict(config))

    def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics at `step`."""
        prefix = "" if kind == "step" else f"{kind}/"
        self._run.log({f"{prefix}{name}": value for name, value in metrics.items()} | {"step": step})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Sinks:
    """All sinks as one."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)
        self._writing = asyncio.Lock()

    async def write(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Give the metrics to every sink, in a thread."""
        async with self._writing:
            for sink in self._sinks:
                await asyncio.to_thread(_write, sink, kind, step, metrics)

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            try:
                sink.close()
            except Exception:
                logger.exception("%s did not close", type(sink).__name__)


def _write(sink: Sink, kind: str, step: int, metrics: Mapping[str, float]) -> None:
    name, began = type(sink).__name__, time.monotonic()
    try:
        sink.write(kind, step, metrics)
    except Exception:
        logger.exception("%s did not write the metrics of step %d", name, step, extra=event("MetricsNotWritten"))
    if (seconds := time.monotonic() - began) > SLOW_VOLUME_SECONDS:
        logger.warning("%s wrote the metrics of step %d in %.0f s", name, step, seconds, extra=event(SLOW_VOLUME))
