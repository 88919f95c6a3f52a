"""A suspended SweEval stops, resumes where it was, and leaves nothing when it is deleted."""

from __future__ import annotations

from tests.control_plane.operator_process import Operator

from .conftest import Body, JobNamespace
from .evaluations import (
    KIND,
    TASKS,
    EngineInAPod,
    engine,
    evaluation,
    objects_of,
    repository,
    results,
    task,
    tasks,
    tokenizer,
    valid_samples,
    wait_until_complete,
)

__all__ = ["engine", "evaluation", "repository", "task", "tasks", "tokenizer"]


def test_evaluation_is_suspended_resumed_and_cleaned_up(
    kube: JobNamespace, operator: Operator, engine: EngineInAPod, tasks: list[str], evaluation: Body
) -> None:
    name = evaluation["metadata"]["name"]
    evaluation["spec"]["model"]["endpoint"]["url"] = engine.url
    evaluation["spec"]["workers"] = 1
    kube.apply(evaluation)
    kube.until(lambda: results(kube, name), lambda lines: len(lines) > 0, 300)
    kube.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
    kube.until_condition(name, "Suspended", "Suspended", kind=KIND)
    kube.until(lambda: objects_of(kube, name), lambda remaining: remaining == [], 90)
    before = valid_samples(results(kube, name))
    kube.kubectl("patch", KIND, name, "--type=merge", "-p", '{"spec":{"suspend":false}}')
    status = wait_until_complete(kube, name)
    assert (status["total"], status["resolved"]) == (TASKS, TASKS)
    after = valid_samples(results(kube, name))
    assert before <= after and set(after.values()) == {1}
    kube.kubectl("delete", KIND, name, "--wait=false")
    evaluation_kinds = "jobs,configmaps,serviceaccounts,rolebindings,pods"
    kube.until(
        lambda: [object_name for object_name in kube.names(evaluation_kinds) if name in object_name],
        lambda remaining: remaining == [],
        60,
    )
