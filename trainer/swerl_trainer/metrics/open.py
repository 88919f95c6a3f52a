"""Opening the sinks of an attempt."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from swerl_trainer.metrics.driver_metrics import DriverMetrics
from swerl_trainer.metrics.sinks import JsonlSink, PrometheusSink, Sink, Sinks, TensorBoardSink, WandbSink

logger = logging.getLogger(__name__)


def open_sinks(
    folder: Path,
    *,
    run: str,
    attempt: int,
    keep: Mapping[str, int],
    config: Mapping[str, Any],
    driver: DriverMetrics,
) -> Sinks:
    """JSONL at `folder`/metrics.jsonl always; the others where they work. No other process may write to `folder`.

    `keep`: by kind of row, the last step that is not repeated; `run`: identifies the job over its attempts;
    `driver`: counters for Prometheus beside the rows.
    """
    sinks: list[Sink] = [JsonlSink(folder / "metrics.jsonl", attempt=attempt, keep=keep)]
    optional_sinks: dict[str, Callable[[], Sink]] = {
        "TensorBoard": lambda: TensorBoardSink(folder / "tensorboard", first_step=keep.get("step", -1) + 1),
        "Prometheus": lambda: PrometheusSink(driver),
    }
    if importlib.util.find_spec("wandb") and os.environ.get("WANDB_API_KEY"):
        optional_sinks["wandb"] = lambda: WandbSink(driver.job, run, config)
    for name, opened in optional_sinks.items():
        try:
            sinks.append(opened())
        except Exception as error:
            logger.warning("metrics do not go to %s: %s", name, error)
    return Sinks(sinks)
