"""SweRLJobs that train, on the real cluster: to the end, through the loss of the driver, and away without a trace."""

from __future__ import annotations

import json
import time
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from swerl_api.names import METRICS_PORT
from swerl_trainer.metrics.catalogue import NAMES, families, gauge_of

from cluster.layout import locked, swerl_home
from demo.cluster import ROOT, DemoCluster
from demo.job import SYSTEM_NAMESPACE
from demo.setup import RELEASE
from tests.e2e.absent_metrics import OPTIONAL_METRICS
from tests.e2e.product_namespace import ProductNamespace
from tests.e2e.trained_groups import groups, task_order
from tests.unit.charts.queries import DASHBOARDS, panel_queries

# Prints the statuses of Ray's answers without a token, with another, and with that of the environment.
ASK_RAY = """
import os, urllib.error, urllib.request
for token in (None, "another", os.environ["RAY_AUTH_TOKEN"]):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        print(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8265/api/jobs/", headers=headers)).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
# What those who come from other frameworks look for.
AGENT_FIGURES = {
    f"agent/{name}"
    for name in [
        "turns_mean",
        "turns_sum",
        "tool_calls_mean",
        "tool_calls_sum",
        "model_query_time_sum_mean",
        "env_execution_time_sum_mean",
        "eval_time_mean",
        "agent_run_time_mean",
        "overhead_time_mean",
        "time_per_turn",
        "model_query_time_avg",
        "env_execution_time_avg",
        "model_time_ratio",
        "env_time_ratio",
        "eval_time_ratio",
        "total_time_mean",
        "total_time_max",
        "total_time_min",
    ]
}

# Metrics of dashboards that also need an option which this job lacks.
NOT_IN_EVERY_JOB = OPTIONAL_METRICS | {
    "swerl_sandbox_gold_canary_pass_rate",
    "swerl_supervised_step",
    "swerl_train_kl_loss",
}


def undocumented(row: dict[str, Any]) -> set[str]:
    """Metrics of a step that the catalogue, and so docs/metrics.md, does not name."""
    return {name for name in row if "/" in name and gauge_of(name).metric not in NAMES}


def in_head(product_namespace: ProductNamespace, name: str, attempt: int, *command: str) -> str:
    """The output of a command in the head Pod of an attempt."""
    selector = f"swerl.dev/job={name},swerl.dev/attempt={attempt},ray.io/node-type=head"
    head = product_namespace.cluster.kubectl(
        "get", "pods", "-n", product_namespace.namespace, "-l", selector, "-o", "name"
    ).strip()
    assert head, f"attempt {attempt} has no head Pod: {json.dumps(product_namespace.status(name), indent=1)}"
    return str(product_namespace.cluster.kubectl("exec", "-n", product_namespace.namespace, head, "--", *command))


def scrape(port: int) -> str:
    """A program that prints what Prometheus reads at `port` of its Pod."""
    return f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"


def samples(text: str) -> dict[str, float]:
    """The sum of each metric's values."""
    found: dict[str, float] = {}
    for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def upgrade_and_roll_back(cluster: DemoCluster) -> None:
    """Another Pod of the operator, and then one of the release before."""
    scope = ("--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "3m")
    with locked(swerl_home() / "helm.lock"):
        values = ("--reuse-values", "--set", "podLabels.upgraded=yes")
        cluster.helm("upgrade", RELEASE, str(ROOT / "charts"), *values, *scope)
        cluster.helm("rollback", RELEASE, *scope)


def test_job_trains_through_a_killed_driver_and_cleans_up(product_namespace: ProductNamespace) -> None:
    job = product_namespace.manifest("grpo", {"steps": 3, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["checkpoint"]["every"] = 1
    job["spec"]["logFormat"] = "json"
    name = product_namespace.apply(job)

    product_namespace.wait("a first step", product_namespace.rows, 600)
    statuses = in_head(product_namespace, name, 1, "python", "-c", ASK_RAY)
    assert statuses.split() == ["401", "403", "200"], "without a token, with another, with the job's"
    operator = ("exec", "-n", SYSTEM_NAMESPACE, f"deployment/{RELEASE}-operator", "--", "python3", "-c", scrape(9090))
    by_operator = samples(product_namespace.cluster.kubectl(*operator))
    product_namespace.wait(
        "a second step, so that the first has its checkpoint", lambda: len(product_namespace.rows()) >= 2, 300
    )
    kill = 'python -c "$0" && pkill -9 -f "[s]werl_trainer.driver"'  # in one call: the third step is short
    exported = samples(in_head(product_namespace, name, 1, "sh", "-c", kill, scrape(METRICS_PORT)))
    deadline = time.monotonic() + 60
    product_namespace.wait("second attempt", lambda: product_namespace.status(name).get("attempt") == 2, 60)
    first = f"swerl.dev/job={name},swerl.dev/attempt=1"
    kinds = "pods,jobs,swesandboxes,rayclusters"
    product_namespace.wait(
        "end of attempt 1", lambda: not product_namespace.objects(first, kinds), deadline - time.monotonic()
    )

    assert {each for each in exported if not each.startswith("swerl_driver_")} <= families().keys()
    shown = {metric for path in DASHBOARDS for query in panel_queries(path) for metric in query.metrics()}
    assert shown - exported.keys() - by_operator.keys() <= NOT_IN_EVERY_JOB
    assert exported["swerl_step"] >= 2
    assert exported["swerl_driver_episodes_total"] >= 16, "two steps of two groups of four"
    assert exported["swerl_driver_gradings_total"] and exported["swerl_driver_commands_total"]
    assert exported["swerl_driver_api_writes_total"] >= 4, "each group is declared"
    log = (product_namespace.output / name / "logs" / "1" / "driver.log").read_text().splitlines()
    lines = [json.loads(line) for line in log]
    assert {(line["job"], line["attempt"]) for line in lines} == {(name, 1)}
    assert {1, 2} <= {line["step"] for line in lines if "step" in line}

    upgrade_and_roll_back(product_namespace.cluster)
    status = product_namespace.finish(name, 900)
    described = product_namespace.cluster.kubectl("describe", "swerl", name, "-n", product_namespace.namespace)
    assert "DriverFailed" in described and "attempt 2: resuming from" in described, "its Events"
    steps = product_namespace.rows()
    assert [row["step"] for row in steps] == [1, 2, 3]
    assert {row["attempt"] for row in steps} == {1, 2}
    assert status["step"] == 3
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in steps)
    for row in steps:
        assert set(row) >= AGENT_FIGURES
        assert not undocumented(row)
    order = task_order(job)
    assert groups(product_namespace.output / name / "artifacts") == {
        (k, order(k), f"step-{1 + k // 2:04}") for k in range(6)
    }

    product_namespace.cluster.kubectl("delete", "swerljob", name, "-n", product_namespace.namespace, "--wait=false")
    product_namespace.wait("clean-up", lambda: not product_namespace.objects(f"swerl.dev/job={name}"), 60)


def test_wrong_tasks_fail_a_job_at_once_with_their_line(product_namespace: ProductNamespace) -> None:
    metadata = {"name": "wrong-tasks", "namespace": product_namespace.namespace}
    data = {"tasks.jsonl": '\n{"instance_id": \n'}
    product_namespace.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    job = product_namespace.manifest("wrong", {"steps": 1, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["tasks"] = {"source": {"configMap": {"name": "wrong-tasks"}}, "format": "jsonl"}
    name = product_namespace.apply(job)
    product_namespace.wait("failure", lambda: product_namespace.condition(name, "Failed").get("status") == "True", 300)
    failed = product_namespace.condition(name, "Failed")
    assert failed["reason"] == "DriverFailed"
    assert "TaskError: /swerl/tasks/tasks.jsonl:2: not valid JSON" in failed["message"]
    assert "Traceback" not in failed["message"]
    assert product_namespace.status(name)["attempt"] == 1
