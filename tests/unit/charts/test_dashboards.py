"""Dashboards and alerts refer to metrics and labels that the exporters have; every alert has a runbook."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from swerl_trainer.metrics.catalogue import JOB_LABEL, NAMES, families, gauge_of

from .exporters import Exporters, step_row
from .queries import CHART, DASHBOARDS, Query, alerts, all_queries, dashboard

DOCS = CHART.parent / "docs"
TARGET_LABELS = {"namespace", "pod", "instance", "job"}  # Prometheus adds them


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, frozenset[str]]]:
    """Every metric, and its labels."""
    exporters = Exporters()
    yield families() | exporters.labels()
    exporters.close()


@pytest.mark.parametrize("query", all_queries(), ids=lambda query: query.place)
def test_query_uses_metrics_and_labels_that_exist(query: Query, known: dict[str, frozenset[str]]) -> None:
    assert query.metrics() and query.metrics() <= known.keys()
    for metric, label in query.matched():
        assert label in known[metric] | TARGET_LABELS, f"{metric} has no label {label}"
    labels = set[str]().union(*(known[metric] for metric in query.metrics()))
    assert query.grouped() <= labels | TARGET_LABELS


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_panels_have_titles_units_and_places(path: Path) -> None:
    panels = dashboard(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)
    assert all(panel["fieldConfig"]["defaults"]["unit"] for panel in panels if panel["type"] != "row")
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_dashboards_are_four_with_names_of_their_own() -> None:
    found = [dashboard(path) for path in DASHBOARDS]
    assert [path.stem for path in DASHBOARDS] == ["cost", "learning", "sandboxes", "step-time"]
    assert len({each["uid"] for each in found}) == len({each["title"] for each in found}) == len(found)
    assert all(each["templating"]["list"][0]["type"] == "datasource" for each in found)


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    sections = re.findall(r"^## (\w+)$", (DOCS / "runbooks.md").read_text(), re.MULTILINE)
    assert sections == [alert["alert"] for alert in alerts()]
    for alert in alerts():
        assert alert["annotations"]["runbook_url"] == f"RUNBOOKS#{alert['alert'].lower()}"
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["annotations"]["summary"] and alert["annotations"]["description"]


def test_page_of_metrics_has_every_metric() -> None:
    page = (DOCS / "metrics.md").read_text()
    assert set(re.findall(r"`((?:rollout|agent|judge|sandbox|train|perf)/[^`]+)`", page)) == set(NAMES)


def test_page_of_metrics_has_the_counters_with_their_labels(known: dict[str, frozenset[str]]) -> None:
    page = (DOCS / "metrics.md").read_text()
    found = re.findall(r"`(swerl_\w+)(?:\{([^}]*)\})?`", page)
    documented = {name: frozenset(filter(None, labels.split(","))) for name, labels in found}
    counters = {
        re.sub(r"_(bucket|sum|count)$", "", name): labels - {"le", JOB_LABEL}
        for name, labels in known.items()
        if name.startswith("swerl_") and name not in families() and not name.endswith("_created")
    }
    assert {name: documented.get(name) for name in counters} == counters
    assert documented.keys() <= counters.keys() | families().keys()


def test_values_in_names_become_labels() -> None:
    gauge = gauge_of("eval/agent/exit_status/submitted")
    assert (gauge.family, gauge.labels) == ("swerl_eval_agent_exit_status", {"status": "submitted"})
    assert gauge_of("rollout/zero_std/count_-1").labels == {"reward": "-1"}
    assert gauge_of("mine/x-y").family == "swerl_mine_x_y"
    assert len({gauge_of(name).family for name in NAMES}) == len(NAMES), "two metrics would be one gauge"


def test_metrics_of_a_step_are_in_the_catalogue() -> None:
    assert {gauge_of(name).metric for name in step_row()} <= set(NAMES)
