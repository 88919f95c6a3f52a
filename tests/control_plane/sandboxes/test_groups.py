"""Groups of sandboxes on a real cluster: their life, their ends, and what must never happen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from tests.conftest import kubectl

Body = dict[str, Any]
Reading = Callable[[Body, str], tuple[str, str, str]]


class Placement(NamedTuple):
    """Where a Pod can only be once `open` was awaited."""

    selector: dict[str, str]
    open: Callable[[], Awaitable[None]]


def ready_pods(pods: dict[str, Body]) -> int:
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
        for pod in pods.values()
    )


async def test_group_of_four_becomes_ready(user: Any, operator: Any, reading: Reading) -> None:
    before = operator.metric('swerl_sandbox_api_writes_total{verb="patch_status"}')
    await user.declare("four", replicas=4)
    status = await user.phase("four", "Ready")
    assert reading(status, "Ready")[:2] == ("True", "AllReady")
    assert reading(status, "Admitted")[0] == "True"
    assert (status["replicas"], status["ready"], status["failed"]) == (4, 4, 0)
    parts = {f"{part}Seconds" for part in ("queue", "schedule", "prepare", "start")}
    assert set(status["waits"]) - {"pullSeconds"} == parts and min(status["waits"].values()) >= 0
    pods = await user.pods("four")
    assert sorted(pods) == [f"swesb-four-{i}" for i in range(4)]
    assert {pod["metadata"]["labels"]["swerl.dev/egress"] for pod in pods.values()} == {"none"}
    policy = await user.api.get("networking.k8s.io/v1", "networkpolicies", user.namespace, "swerl-deny-all")
    assert policy["spec"]["podSelector"]["matchLabels"] == {"swerl.dev/egress": "none"}
    sandbox = await user.sandbox("four")
    assert not sandbox["metadata"].get("annotations") and not sandbox["metadata"].get("finalizers")
    assert operator.metric('swerl_sandbox_api_writes_total{verb="patch_status"}') - before <= 3
    await user.delete("four")
    await user.until(lambda: user.pods("four"), lambda pods: not pods, 30)
    await user.until(user.policies, lambda policies: not policies, 45)


@pytest.mark.alone  # a busy kubelet sends its Event late
async def test_pull_seconds_are_written_if_their_event_came_in_time(user: Any) -> None:
    for attempt in range(5):
        await user.declare(f"pulled-{attempt}", replicas=1)
        waits = (await user.phase(f"pulled-{attempt}", "Ready"))["waits"]
        await user.delete(f"pulled-{attempt}")
        if "pullSeconds" in waits:
            assert waits["pullSeconds"] == 0.0, "the node has the image"
            return
    pytest.fail("of five groups none has a pull in its status")


async def test_deleted_policy_is_restored_while_a_sandbox_runs(user: Any) -> None:
    await user.declare("closed", replicas=1)
    await user.phase("closed", "Ready")
    await user.api.delete("networking.k8s.io/v1", "networkpolicies", user.namespace, "swerl-deny-all")
    (policy,) = await user.until(user.policies, bool, 30)
    assert policy["metadata"]["name"] == "swerl-deny-all"
    await user.delete("closed")


async def test_pods_run_without_token_or_privilege(user: Any, kubeconfig: str) -> None:
    await user.declare("inside", replicas=1)
    await user.phase("inside", "Ready")
    script = (
        "test ! -e /var/run/secrets/kubernetes.io && grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"
        " && chown 1000:1000 /tmp && chown 0:0 /tmp && echo $PAGER && pwd && cat /proc/1/comm"
    )
    command = ["kubectl", "--kubeconfig", kubeconfig, "-n", user.namespace, "exec", "swesb-inside-0", "--"]
    process = await asyncio.create_subprocess_exec(
        *command, "sh", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    lines = output.decode().split("\n")
    assert process.returncode == 0, errors.decode()
    columns = dict(line.split(":\t") for line in lines[:3])
    assert columns["NoNewPrivs"] == "1" and columns["Seccomp"] == "2"
    assert int(columns["CapEff"], 16) < 2**8  # none beyond KILL, SETGID, SETUID and the file capabilities
    assert lines[3:6] == ["cat", "/", "sh"]
    await user.delete("inside")


async def test_deleted_pod_is_not_replaced_and_the_last_one_ends_the_group(user: Any, reading: Reading) -> None:
    await user.declare("spent", replicas=3)
    await user.phase("spent", "Ready")
    await user.release("swesb-spent-1")
    await user.until(lambda: user.pods("spent"), lambda pods: len(pods) == 2, 20)
    await asyncio.sleep(3)
    assert sorted(await user.pods("spent")) == ["swesb-spent-0", "swesb-spent-2"]
    for ordinal in (0, 2):
        await user.release(f"swesb-spent-{ordinal}")
    status = await user.phase("spent", "Finished", 30)
    assert reading(status, "Finished")[:2] == ("True", "Completed")
    assert (status["finished"], status["failed"]) == (3, 0)
    assert not await user.pods("spent")
    await user.delete("spent")


async def test_expired_lease_deletes_group_and_pods(user: Any, operator: Any) -> None:
    await user.renew("driver", 6)
    for name in ("leased-a", "leased-b"):
        await user.declare(name, replicas=2, owner="driver")
    for _ in range(20):
        await user.renew("driver", 6)
        await asyncio.sleep(1)
        if all([(await user.status(name)).get("phase") == "Ready" for name in ("leased-a", "leased-b")]):
            break
    assert ready_pods(await user.pods("leased-a")) == 2
    started = time.monotonic()
    for name in ("leased-a", "leased-b"):
        await user.until(lambda name=name: user.sandbox(name), lambda found: found is None, 20)
        await user.until(lambda name=name: user.pods(name), lambda pods: not pods, 20)
    assert time.monotonic() - started <= 20
    assert operator.metric('swerl_sandbox_groups_ended_total{reason="LeaseExpired"}') == 2


async def test_groups_wait_in_order_within_the_limit(user: Any, reading: Reading) -> None:
    names = ["first", "second", "third"]
    for name in names:
        await user.declare(name, job="limited", replicas=2, maxConcurrent=4)
    await user.phase("first", "Ready")
    await user.phase("second", "Ready")
    waiting = await user.phase("third", "Pending", 30)
    assert reading(waiting, "Admitted")[:2] == ("False", "WaitingForCapacity")
    assert not await user.pods("third")
    await user.release("swesb-second-0")
    await asyncio.sleep(2)
    assert not await user.pods("third")  # one free place is not enough for a group of two
    await user.release("swesb-first-1")
    await user.phase("third", "Ready")
    for name in names:
        await user.delete(name)


async def test_missing_image_is_reported_with_its_fix(user: Any, reading: Reading) -> None:
    image = "registry.swerl:5000/no/such-image:1"
    await user.declare("bad-image", replicas=12, image=image)
    status = await user.phase("bad-image", "Failed", 90)
    state, reason, message = reading(status, "Finished")
    assert (state, reason) == ("True", "ImagePullFailed")
    assert image in message and "imagePullSecrets" in message
    assert not await user.pods("bad-image")
    events = await user.until(lambda: user.events("bad-image"), bool, 10)
    assert [(event["type"], event["reason"]) for event in events] == [("Warning", "ImagePullFailed")]
    assert image in events[0]["message"]
    await user.delete("bad-image")


async def test_lifetime_ends_the_pods_and_the_group(user: Any, reading: Reading) -> None:
    await user.declare("brief", replicas=2, lifetimeSeconds=10)
    status = await user.phase("brief", "Failed", 90)
    assert reading(status, "Finished")[1] == "LifetimeExceeded"
    assert status["failed"] == 2
    await user.delete("brief")


async def test_unschedulable_pod_waits_and_is_reported(user: Any, reading: Reading) -> None:
    await user.declare("nowhere", replicas=2, nodeSelector={"no-such": "node"})
    status = await user.until(
        lambda: user.status("nowhere"),
        lambda s: any(c["reason"] == "Unschedulable" for c in s.get("conditions", ())),
        40,
    )
    assert reading(status, "Ready")[0] == "False"
    assert len(await user.pods("nowhere")) == 2
    await user.declare("elsewhere", replicas=1)  # other groups of the job continue
    await user.phase("elsewhere", "Ready")
    for name in ("nowhere", "elsewhere"):
        await user.delete(name)


@pytest.fixture
async def placement(user: Any) -> AsyncIterator[Placement]:
    """A label of nodes that no node has until it is opened."""
    node = (await user.api.list("v1", "nodes", None))[0]["metadata"]["name"]
    key = f"test.swerl.dev/place-{os.getpid()}"

    async def label(value: str | None) -> None:
        await user.api.patch("v1", "nodes", None, node, {"metadata": {"labels": {key: value}}})

    yield Placement({key: "open"}, lambda: label("open"))
    await label(None)


async def test_unschedulable_group_reports_its_reason_and_starts_on_a_new_node(
    user: Any, reading: Reading, kubeconfig: str, placement: Placement
) -> None:
    lifetime = 15
    await user.declare("patient", replicas=2, lifetimeSeconds=lifetime, nodeSelector=placement.selector)
    status = await user.until(lambda: user.status("patient"), bool, 60)
    state, reason, message = reading(status, "Ready")
    assert (state, reason) == ("False", "Unschedulable") and message.startswith(
        "2 of 2 Pods without a node, swesb-patient"
    )
    pods = await user.pods("patient")
    since = min(c["lastTransitionTime"] for pod in pods.values() for c in pod["status"]["conditions"])
    assert f"since {since}: 0/" in message and "node affinity/selector" in message
    events = await user.until(lambda: user.events("patient"), bool, 10)
    assert [(event["type"], event["reason"], event["message"]) for event in events] == [("Warning", reason, message)]
    described = await asyncio.to_thread(kubectl, kubeconfig, "-n", user.namespace, "describe", "swesb", "patient")
    assert described.count(message) == 2, described  # the condition and the Event

    await asyncio.sleep(lifetime)
    assert {name: pod["metadata"]["uid"] for name, pod in (await user.pods("patient")).items()} == {
        name: pod["metadata"]["uid"] for name, pod in pods.items()
    }, "a lifetime begins on a node"
    await placement.open()
    status = await user.phase("patient", "Failed", 90)
    assert reading(status, "Finished")[1] == "LifetimeExceeded" and status["waits"]["scheduleSeconds"] >= lifetime
    await user.delete("patient")


async def test_pod_refused_by_the_api_server_fails_its_group_with_the_message(user: Any, reading: Reading) -> None:
    await user.declare("greedy", resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
    status = await user.phase("greedy", "Failed", 30)
    state, reason, message = reading(status, "Finished")
    assert (state, reason) == ("True", "PodRejected")
    assert "cpu" in message
    await user.delete("greedy")


async def test_metrics_are_published(user: Any, operator: Any) -> None:
    created = operator.metric('swerl_sandbox_api_writes_total{verb="create_pod"}')
    started = operator.metric("swerl_sandbox_start_seconds_count")
    await user.declare("counted", replicas=2)
    await user.phase("counted", "Ready")
    assert operator.metric('swerl_sandbox_api_writes_total{verb="create_pod"}') == created + 2
    assert operator.metric("swerl_sandbox_start_seconds_count") == started + 2
    assert operator.metric('swerl_sandboxes{phase="ready"}') >= 2
    await user.delete("counted")
