"""Where figures go.

Guarantees: after a resume the JSONL file holds one row per step, rows of steps that are done again being taken out
first; a row that the disk refuses leaves the others as they are; a sink that fails is logged and never stops training.
"""

from __future__ import annotations

import importlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from swerl_agent.storage import Journal, write_atomic

logger = logging.getLogger(__name__)

PROMETHEUS_PORT = 9102


class Sink(Protocol):
    """Takes the figures of one step."""

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """`kind`: step, supervised or evaluation."""
        ...

    def close(self) -> None: ...


class JsonlSink:
    """One JSON object per line: kind, step, attempt, time, and the figures. The file is that of one job alone."""

    def __init__(self, path: Path, *, attempt: int, keep: Mapping[str, int]) -> None:
        """`keep`: by kind, the last step whose row stays; later ones are done again."""
        self._attempt = attempt
        self._journal = Journal(path, dict)
        if path.is_file():
            kept = [row for row in rows(path) if row["step"] <= keep.get(row["kind"], -1)]
            write_atomic({path: [f"{json.dumps(row)}\n".encode() for row in kept]})

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Append one row and have it on disk."""
        self._journal.append(
            {"kind": kind, "step": step, "attempt": self._attempt, "time": round(time.time(), 3), **figures}
        )

    def close(self) -> None:
        """Nothing is buffered."""


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Complete rows of a JSONL file; a last line cut off by a crash is left out."""
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "step" in row and "kind" in row:
            yield row


class TensorBoardSink:
    """Event files; steps done again replace the earlier ones."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Add one scalar per figure."""
        for name, value in figures.items():
            self._writer.add_scalar(name if kind == "step" else f"{kind}/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Write what is buffered."""
        self._writer.close()


class PrometheusSink:
    """The newest figures as gauges `swerl_<name>` with the job's name as label."""

    def __init__(self, job: str, port: int = PROMETHEUS_PORT) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        self._job = job
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()
        registry = CollectorRegistry()
        registry.register(self)
        self._server, _ = start_http_server(port, registry=registry)

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Remember the figures for the next scrape."""
        with self._lock:
            self._values |= {"step" if kind == "step" else f"{kind}_step": float(step), **figures}

    def collect(self) -> Iterator[Any]:
        """Gauges for prometheus_client."""
        from prometheus_client.core import GaugeMetricFamily

        with self._lock:
            values = dict(self._values)
        for name, value in values.items():
            clean = "".join(c if c.isalnum() else "_" for c in name)
            gauge = GaugeMetricFamily(f"swerl_{clean}", f"{name} of the newest step", labels=["job"])
            gauge.add_metric([self._job], value)
            yield gauge

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class WandbSink:
    """A wandb run that goes on over attempts; used when wandb is installed and WANDB_API_KEY is given."""

    def __init__(self, job: str, run: str, config: Mapping[str, Any]) -> None:
        wandb: Any = importlib.import_module("wandb")
        self._run: Any = wandb.init(project="swe-rl", name=job, id=run, resume="allow", config=dict(config))

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Log the figures at `step`."""
        prefix = "" if kind == "step" else f"{kind}/"
        self._run.log({f"{prefix}{name}": value for name, value in figures.items()} | {"step": step})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


class Sinks:
    """All sinks as one."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Give the figures to every sink."""
        for sink in self._sinks:
            try:
                sink.write(kind, step, figures)
            except Exception:
                logger.exception("%s did not take the figures of step %d", type(sink).__name__, step)

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            try:
                sink.close()
            except Exception:
                logger.exception("%s did not close", type(sink).__name__)
