"""The dashboards show a real job: each query, in a real Prometheus that reads the job's driver and the operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from swerl_api.names import METRICS_PORT

from demo.job import SYSTEM_NAMESPACE
from demo.setup import RELEASE
from tests.unit.charts.prometheus import Prometheus, running_prometheus
from tests.unit.charts.queries import DASHBOARDS, Query, panel_queries

from .absent_metrics import OPTIONAL_METRICS
from .port_forward import forwarded
from .product_namespace import ProductNamespace

SOLVED = 'outcome="resolved"'  # a query by solved tasks; this model may solve none
ENDS = ("Complete", "Failed")
LIMIT = 900  # seconds


def never_shown(server: Prometheus, queries: Iterable[Query], over: Callable[[], bool]) -> list[str]:
    """Places of the queries that had no value until the job was over, or for `LIMIT` seconds."""
    left, end = list(queries), time.monotonic() + LIMIT
    while left and not over() and time.monotonic() < end:
        left = [
            query for query in left if not server.answers(query.with_values(), finite=SOLVED not in query.expression)
        ]
        time.sleep(2)
    return [query.place for query in left]


def test_every_panel_has_data_of_a_job_that_trains(product_namespace: ProductNamespace, tmp_path: Path) -> None:
    sft = {"data": "demonstrations.jsonl", "steps": 1, "batchSize": 4, "lr": 1e-3}
    settings = {"steps": 3, "promptsPerStep": 2, "groupSize": 4, "klCoef": 0.01, "sft": sft}
    job = product_namespace.manifest("shown", settings)
    job["spec"]["grading"]["goldCanaryEvery"] = 1
    name, cluster, namespace = product_namespace.apply(job), product_namespace.cluster, product_namespace.namespace
    selector = f"swerl.dev/job={name},ray.io/node-type=head"
    (head,) = product_namespace.wait("a head Pod", lambda: product_namespace.objects(selector, "pods"), 300)

    def over() -> bool:
        return product_namespace.status(name).get("phase") in ENDS

    queries = [query for path in DASHBOARDS for query in panel_queries(path) if not query.metrics() & OPTIONAL_METRICS]
    operator = f"deployment/{RELEASE}-operator"
    with (
        forwarded(cluster, namespace, head, METRICS_PORT) as driver,
        forwarded(cluster, SYSTEM_NAMESPACE, operator, 9090) as reconcilers,
        running_prometheus(tmp_path, (driver, reconcilers), every="5s") as server,
    ):
        empty = never_shown(server, queries, over)
        rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    assert empty == []
    assert rules and {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    product_namespace.finish(name, 900)
