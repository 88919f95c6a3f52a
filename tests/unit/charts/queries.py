"""The queries of dashboards and alerts, and what they refer to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[3] / "charts"
ALERTS = CHART / "alerts.yaml"
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
# What Grafana puts in; an interval spans some scrapes of the test's Prometheus.
VARIABLES = {"$__rate_interval": "1m", "$__range": "5m", "$namespace": ".*", "$swerljob": ".*"}
METRIC = re.compile(r"\b(?:swerl|process)_\w+")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
LEGEND = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


@dataclass(frozen=True)
class Query:
    """One expression; `texts` name labels of its result."""

    place: str  # file, and panel or alert
    expression: str
    texts: tuple[str, ...] = ()

    def metrics(self) -> set[str]:
        return set(METRIC.findall(re.sub(r'"[^"]*"', "", self.expression)))

    def matched(self) -> Iterator[tuple[str, str]]:
        """Metric and label of each matcher."""
        for metric, matchers in SELECTOR.findall(self.expression):
            yield from ((metric, label) for label in MATCHER.findall(matchers))

    def grouped(self) -> set[str]:
        """Labels by which it groups or joins, and those that texts name."""
        found = {label.strip() for group in GROUPING.findall(self.expression) for label in group.split(",")}
        return found | {label for text in self.texts for label in LEGEND.findall(text)}

    def with_values(self) -> str:
        """The expression as Grafana sends it."""
        text = self.expression
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        return text


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def panel_queries(path: Path) -> list[Query]:
    return [
        Query(f"{path.name}: {panel['title']}", target["expr"], (target["legendFormat"],))
        for panel in dashboard(path)["panels"]
        for target in panel.get("targets", ())
    ]


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def alert_queries() -> list[Query]:
    return [Query(rule["alert"], rule["expr"], tuple(rule["annotations"].values())) for rule in alerts()]


def all_queries() -> list[Query]:
    return [query for path in DASHBOARDS for query in panel_queries(path)] + alert_queries()
