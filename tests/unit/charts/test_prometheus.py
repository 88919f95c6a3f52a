"""Each query of the dashboards has data in a real Prometheus that reads the exporters; alerts fire for their cases."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from swerl_operator.health import serve_metrics
from swerl_operator.metrics import Metrics

from tests.ports import free_port

from .alert_cases import CASES, HEALTHY, QUIET
from .exporters import Exporters
from .prometheus import Prometheus, running_prometheus, without_data
from .queries import ALERTS, DASHBOARDS, alerts, panel_queries

OWN = ("swerl_driver_", "swerl_operator_", "swerl_sandbox_")


@contextmanager
def operator_exporter(metrics: Metrics) -> Iterator[int]:
    """The operator's own endpoint; the port."""
    port, stop = free_port(), threading.Event()

    async def serve() -> None:
        async with serve_metrics(metrics, port):
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=[serve()], daemon=True)
    thread.start()
    yield port
    stop.set()
    thread.join()


@contextmanager
def going_on(exporters: Exporters) -> Iterator[None]:
    """The job takes steps meanwhile."""
    over = threading.Event()

    def steps() -> None:
        while not over.wait(0.5):
            exporters.go_on()

    thread = threading.Thread(target=steps, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has read some values, while the job goes on."""
    folder, exporters = tmp_path_factory.mktemp("prometheus"), Exporters()
    with (
        going_on(exporters),
        operator_exporter(exporters.operator) as port,
        running_prometheus(folder, (port, exporters.driver_port)) as server,
    ):
        assert not without_data(server, ["ALERTS"]), (folder / "log").read_text()
        yield server
    exporters.close()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_every_query_of_a_dashboard_has_data(path: Path, prometheus: Prometheus) -> None:
    assert not without_data(prometheus, (query.with_values() for query in panel_queries(path)))


def test_alerts_are_evaluated(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == {alert["alert"] for alert in alerts()}
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, [rule.get("lastError") for rule in rules]
    firing = {
        alert["labels"]["alertname"] for alert in prometheus.get("alerts")["alerts"] if alert["state"] == "firing"
    }
    assert firing <= {"SweRLGoldCanaryFails"}, "the others wait for minutes, or their expression is false"


def test_each_alert_fires_for_its_case_and_none_in_a_quiet_one(tmp_path: Path) -> None:
    assert CASES.keys() == {alert["alert"] for alert in alerts()}
    tests = [
        promtool_test(f'count(ALERTS{{alertname="{name}", alertstate="firing"}})', CASES[name], 1) for name in CASES
    ]
    tests += [promtool_test('count(ALERTS{alertstate="firing"})', differing, None) for differing in QUIET.values()]
    (tmp_path / "tests.yaml").write_text(
        yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(["promtool", "test", "rules", str(tmp_path / "tests.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def promtool_test(expression: str, differing: dict[str, str], expected: float | None) -> dict[str, Any]:
    """After three hours, `expression` has the value `expected`, None: no sample. Other series are of a healthy job."""
    series = [{"series": name, "values": values} for name, values in (HEALTHY | differing).items() if values]
    samples = [] if expected is None else [{"labels": "{}", "value": expected}]
    query = {"expr": expression, "eval_time": "3h", "exp_samples": samples}
    return {"name": expression, "interval": "1m", "input_series": series, "promql_expr_test": [query]}


def test_names_of_counters_follow_prometheus_conventions() -> None:
    exporters = Exporters()
    texts = [generate_latest(registry) for registry in exporters.registries]
    exporters.close()
    found = [subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True) for text in texts]
    problems = [line for done in found for line in (done.stdout + done.stderr).decode().splitlines()]
    assert not [line for line in problems if line.startswith(OWN)], "other names are those that the field knows"
    assert any(line.startswith("swerl_agent_turns_sum") for line in problems), "promtool checks names"
