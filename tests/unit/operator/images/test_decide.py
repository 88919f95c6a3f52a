"""Which pulls start, and what is restore_history of those that ended."""

from __future__ import annotations

import pytest
from swerl_api import SweImageSetSpec, SweImageSetStatus
from swerl_operator.images.decide import PullDecision, PullHistory, decide
from swerl_operator.images.manifests import pull_pod
from swerl_operator.images.observe import Pull, read_pull, selected_nodes
from swerl_operator.images.status import build_status, restore_history

IMAGES, NODES = ["a", "b", "c"], ["n1", "n2"]
SPEC = SweImageSetSpec(images=IMAGES, retries=5)


def step(history: PullHistory, *pulls: Pull, now: float = 0.0, parallel: int = 1, budget: int = 100) -> PullDecision:
    spec = SweImageSetSpec(images=IMAGES, parallel_per_node=parallel)
    return decide(spec, IMAGES, NODES, pulls, history, now, budget=budget)


def pull(node: str, image: str, state: str, uid: str = "u") -> Pull:
    return Pull(f"pod-{node}-{image}", uid, (node, image), state, "no such image")  # type: ignore[arg-type]


def test_all_nodes_pull_at_once() -> None:
    assert step(PullHistory()).create == (("n1", "a"), ("n2", "a"))
    assert step(PullHistory(), parallel=2).create == (("n1", "a"), ("n2", "a"), ("n1", "b"), ("n2", "b"))


def test_budget_limits_all_nodes_together() -> None:
    assert step(PullHistory(), parallel=3, budget=1).create == (("n1", "a"),)


def test_running_pull_counts() -> None:
    assert step(PullHistory(), pull("n1", "a", "running")).create == (("n2", "a"),)


def test_pulled_image_is_recorded_and_its_pod_deleted() -> None:
    history = PullHistory()
    decision = step(history, pull("n1", "a", "pulled"))
    assert decision.delete == ("pod-n1-a",) and ("n1", "b") in decision.create
    assert history.pulled == {"n1": {"a"}}


def test_failed_pull_is_retried_with_doubling_delays() -> None:
    history = PullHistory()
    decision = step(history, pull("n1", "a", "failed"), now=0)
    assert ("n1", "a") not in decision.create and decision.requeue_after == 15
    assert ("n1", "a") in step(history, now=16).create
    step(history, pull("n1", "a", "failed", uid="second"), now=20)
    assert history.failures["n1", "a"].count == 2 and history.failures["n1", "a"].retry_at == 50


def test_rate_limit_error_pauses_all_pulls_for_a_minute() -> None:
    history = PullHistory()
    message = "failed to pull: 429 Too Many Requests - Server message: toomanyrequests: You have reached your limit"
    refused = Pull("pod", "u", ("n1", "a"), "failed", message)
    assert step(history, refused, now=100).create == ()
    assert step(history, now=159, parallel=3).create == ()
    assert step(history, now=160, parallel=3).create[:2] == (("n1", "a"), ("n2", "a"))


def test_failed_pod_that_is_still_listed_counts_once() -> None:
    history = PullHistory()
    for _ in range(3):
        step(history, pull("n1", "a", "failed"))
    assert history.failures["n1", "a"].count == 1


def test_pods_of_a_removed_node_are_deleted() -> None:
    assert step(PullHistory(), pull("gone", "a", "running")).delete == ("pod-gone-a",)


def test_history_is_restored_from_the_status() -> None:
    history = PullHistory(pulled={"n1": {"a", "c"}, "n2": {"b"}})
    status = build_status(SweImageSetStatus(), IMAGES, NODES, history, SPEC, 1)
    assert restore_history(status, IMAGES).pulled == history.pulled
    assert restore_history(status, ["a", "b"]).pulled == {}


def test_missing_images_are_listed_in_order_up_to_a_limit() -> None:
    history = PullHistory(pulled={"n1": {"a", "c"}, "n2": {"c"}})
    assert build_status(SweImageSetStatus(), ["c", "b", "a"], NODES, history, SPEC, 1).missing_images == ["b", "a"]
    many = [f"image-{number}" for number in range(5000)]
    status = build_status(SweImageSetStatus(), many, NODES, PullHistory(), SPEC, 1)
    assert (status.missing, status.missing_images) == (10_000, many[:100])


def test_message_names_the_first_failure_while_it_is_retried() -> None:
    history = PullHistory()
    step(history, pull("n1", "a", "failed"))
    condition = build_status(SweImageSetStatus(), IMAGES, NODES, history, SPEC, 1).conditions[0]
    assert condition.reason == "Pulling" and "retried, the first: a on n1: no such image" in condition.message


def node(name: str, *taints: dict[str, str], ready: str = "True", **labels: str) -> dict[str, object]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"conditions": conditions},
    }


def test_only_nodes_that_accept_the_pods_are_selected() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    nodes = [node("plain"), node("gpu", taint), node("down", ready="False"), node("pool", pool="x")]
    spec = SweImageSetSpec(images=["a"])
    assert selected_nodes(nodes, spec) == ["plain", "pool"]
    assert selected_nodes(nodes, spec.model_copy(update={"node_selector": {"pool": "x"}})) == ["pool"]
    with_tolerations = SweImageSetSpec.model_validate(
        {"images": ["a"], "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    )
    assert selected_nodes(nodes, with_tolerations) == ["gpu", "plain", "pool"]


def test_present_image_causes_no_registry_request() -> None:
    owner = {"metadata": {"name": "set", "namespace": "ns", "uid": "u"}}
    [container] = pull_pod(owner, SweImageSetSpec(images=["a:latest"]), ("n1", "a:latest"))["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("a:latest", "IfNotPresent")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "running"),
        ({"containerStatuses": [{"name": "pull", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, "running"),
        ({"containerStatuses": [{"name": "pull", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, "failed"),
        ({"containerStatuses": [{"name": "pull", "state": {"waiting": {"reason": "CreateContainerError"}}}]}, "pulled"),
        ({"containerStatuses": [{"name": "pull", "state": {"terminated": {"exitCode": 127}}}]}, "pulled"),
        ({"phase": "Failed", "reason": "OutOfpods"}, "failed"),
    ],
)
def test_result_of_a_pull_pod_is_read(status: dict[str, object], state: str) -> None:
    owner = {"metadata": {"name": "set", "namespace": "ns", "uid": "u"}}
    pod = pull_pod(owner, SweImageSetSpec(images=["a"]), ("n1", "a")) | {"status": status}
    pod["metadata"]["uid"] = "p"
    found = read_pull(pod)
    assert (found.target, found.state) == (("n1", "a"), state)
