"""The page of all Prometheus series: a job's from the catalogue and docs/metrics.md, counters from their registries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from swerl_operator.metrics import Metrics
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.store import GroupStore
from swerl_trainer.metrics.catalogue import JOB_LABEL, gauge_of
from swerl_trainer.metrics.driver_metrics import DriverMetrics

from .pages import ROOT
from .tables import cell, table

INTRODUCTION = f"""# Prometheus series

Every series by its name, for queries and dashboards. [Metrics](../metrics.md) explains where they are served.

Series of jobs have the label `{JOB_LABEL}`. A meaning may cover several names, in their order. Held-out evaluations
have the same names with `swerl_eval_` at the beginning."""
COUNTERS = ("series", "type", "meaning")
NAME = re.compile(r"`([a-z]+/[\w/<>]+)`")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def metric_page() -> str:
    """Series of steps, of the driver and of the operator."""
    operator = Metrics()
    SandboxMetrics(operator.registry, GroupStore())
    return "\n\n".join(
        [
            INTRODUCTION,
            "## Of a step",
            table(("series", "name in metrics.jsonl", "meaning"), sorted(_step_rows())),
            "## Of the driver",
            table(COUNTERS, sorted(_counter_rows(DriverMetrics("job", {}).registry))),
            "## Of the operator",
            table(COUNTERS, sorted(_counter_rows(operator.registry))),
            "",
        ]
    )


def _step_rows() -> Iterator[tuple[str, str, str]]:
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        names, _, text = line.removeprefix("| ").removesuffix(" |").partition(" | ")
        meaning = cell(LINK.sub(r"\1", text))
        for name in NAME.findall(names) if line.startswith("| `") else ():
            gauge = gauge_of(name)
            labels = f"{{{','.join(gauge.labels)}}}" if gauge.labels else ""
            yield f"`{gauge.family}{labels}`", f"`{name}`", meaning


def _counter_rows(registry: CollectorRegistry) -> Iterator[tuple[str, str, str]]:
    for family in registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        yield f"`{family.name}{suffix}`", family.type, cell(family.documentation)
