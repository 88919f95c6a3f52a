"""The page of all Prometheus series: the operator's from its registry, a job's from the tables of docs/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swerl_operator.metrics import Metrics
from swerl_operator.sandboxes.metrics import SandboxMetrics
from swerl_operator.sandboxes.store import GroupStore
from swerl_trainer.metrics.catalogue import gauge_of

from .pages import ROOT
from .tables import cell, table

INTRODUCTION = """# Prometheus series

Every series by its name, for queries and dashboards. [Metrics](../metrics.md) explains where they are served."""
NAME = re.compile(r"`([a-z]+/[\w/<>]+)`")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def metric_page() -> str:
    """Series of jobs and of the operator."""
    return "\n\n".join(
        [
            INTRODUCTION,
            "## Of a job",
            "With the label `swerljob`; served at port 9102 of the head Pod. A meaning may cover several names, in "
            "their order. Held-out evaluations have the same names with `swerl_eval_` at the beginning.",
            table(("series", "name in metrics.jsonl", "meaning"), sorted(_job_rows())),
            "## Of the operator",
            table(("series", "type", "meaning"), sorted(_operator_rows())),
            "",
        ]
    )


def _job_rows() -> Iterator[tuple[str, str, str]]:
    for line in (ROOT / "docs" / "metrics.md").read_text().splitlines():
        names, _, text = line.removeprefix("| ").removesuffix(" |").partition(" | ")
        meaning = cell(LINK.sub(r"\1", text))
        for name in NAME.findall(names) if line.startswith("| `") else ():
            gauge = gauge_of(name)
            labels = f"{{{','.join(gauge.labels)}}}" if gauge.labels else ""
            yield (
                f"`{gauge.family}{labels}`",
                f"`{name}`",
                cell(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning.removesuffix(" |"))),
            )


def _operator_rows() -> Iterator[tuple[str, str, str]]:
    metrics = Metrics()
    SandboxMetrics(metrics.registry, GroupStore())
    for family in metrics.registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        yield f"`{family.name}{suffix}`", family.type, cell(family.documentation)
