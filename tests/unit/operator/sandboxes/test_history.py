"""The whole plane against an API server in memory, over random histories.

Whatever is delayed, repeated, reordered or lost, and whenever the operator dies: no ordinal of a group is created
twice, no job has more Pods than its limit, every group comes to its end, and few writes were needed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from swerl_operator.sandboxes.settings import SandboxSettings

from tests.unit.operator.sandboxes.operator_in_memory import LIMIT, InMemoryOperator, run_until, status_is_complete


def deliver_some(rng: random.Random, server: Any, operator: InMemoryOperator) -> None:
    """Deliver some events: out of order, some twice, some never (a list repairs that)."""
    for _ in range(rng.randint(0, 6)):
        if server.events:
            event = server.events.pop(rng.randrange(min(4, len(server.events))))
            if rng.random() > 0.03:
                operator.deliver(*event)
            if rng.random() < 0.1:
                operator.deliver(*event)


@pytest.mark.parametrize("seed", range(8))
async def test_no_history_creates_an_ordinal_twice(seed: int, make_api_server: Callable[..., Any]) -> None:
    rng = random.Random(seed)
    server = make_api_server(rng, error_rate=0.05)
    operator = InMemoryOperator(server)
    for step in range(400):
        if step < 300 and rng.random() < 0.05:
            server.declare(f"g{step}", replicas=rng.randint(1, 5), maxConcurrent=LIMIT)
        starting = [name for name, body in server.pods.items() if not body.get("status")]
        if starting and rng.random() < 0.6:
            server.set_ready(rng.choice(starting))
        running = [
            name for name, body in server.pods.items() if body.get("status") and status_is_complete(server, name)
        ]
        if running and rng.random() < 0.3:
            server.remove("pod", rng.choice(running))
        if server.sandboxes and rng.random() < 0.01:
            server.remove("sandbox", rng.choice(list(server.sandboxes)))
        if rng.random() < 0.3:
            server.collect_garbage()
        if rng.random() < 0.01:
            await operator.kill()
            server.events.clear()
            operator = InMemoryOperator(server)
        deliver_some(rng, server, operator)
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.005]))
    await drain(server, operator)
    await operator.kill()
    assert max(server.created.values(), default=0) == 1
    assert server.peak["j"] <= LIMIT
    assert not server.sandboxes and not server.pods


async def drain(server: Any, operator: InMemoryOperator) -> None:
    """Let every group run to its end: each Pod becomes ready, then its client deletes it."""
    deadline = asyncio.get_running_loop().time() + 20
    while server.sandboxes or server.pods:
        assert asyncio.get_running_loop().time() < deadline, (list(server.sandboxes), list(server.pods))
        for name, body in list(server.pods.items()):
            if body.get("status") and status_is_complete(server, name):
                server.remove("pod", name)
            elif not body.get("status"):
                server.set_ready(name)
        server.collect_garbage()
        while server.events:
            operator.deliver(*server.events.pop(0))
        await asyncio.sleep(0.005)


async def test_group_of_eight_costs_three_writes_per_sandbox(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server, SandboxSettings(finished_ttl=60))
    server.declare("g", replicas=8)
    await run_until(server, operator, lambda: server.sandboxes["g"].get("status", {}).get("phase") == "Ready")
    for name in list(server.pods):
        server.remove("pod", name)
    server.remove("sandbox", "g")
    await run_until(server, operator, lambda: not server.pods)
    await operator.kill()
    by_client = 1 + 8 + 1  # declare, delete each Pod, delete the group
    assert server.writes["create"] == 8
    assert by_client + server.writes.total() <= 3 * 8


async def test_refused_pod_fails_its_group_with_the_servers_message(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server, SandboxSettings(finished_ttl=60))
    server.declare("g", image="forbidden/image")
    await run_until(server, operator, lambda: server.sandboxes["g"].get("status", {}).get("phase") == "Failed")
    await operator.kill()
    finished = server.sandboxes["g"]["status"]["conditions"][-1]
    assert finished["reason"] == "PodRejected" and "not allowed here" in finished["message"]


async def test_refused_groups_do_not_block_their_job(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    for number in range(3):
        server.declare(f"unwelcome-{number}", image="unwelcome/image")
    server.declare("g")
    await run_until(server, operator, lambda: server.sandboxes["g"].get("status", {}).get("phase") == "Ready")
    await operator.kill()
    assert all(name.startswith("swesb-g-") for name in server.pods)


async def test_group_without_its_lease_is_deleted(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    server.declare("g", owner="nobody")
    await run_until(server, operator, lambda: not server.sandboxes and not server.pods)
    await operator.kill()
    assert not server.sandboxes


async def test_policy_is_in_place_before_the_first_pod(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    server.declare("g")
    await run_until(server, operator, lambda: bool(server.pods))
    await operator.kill()
    spec = server.policies["swerl-deny-all"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and "egress" not in spec and "ingress" not in spec


async def test_only_groups_without_a_network_need_a_policy(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    server.declare("open", egress="allow")
    await run_until(server, operator, lambda: len(server.pods) == 4)
    await operator.reconciler.reconcile_policies([None], idle=0)
    assert not server.policies
    server.declare("closed", replicas=1)
    await run_until(server, operator, lambda: len(server.pods) == 5)
    server.policies.clear()
    await operator.reconciler.reconcile_policies([None], idle=0)
    assert server.policies
    await operator.kill()


@pytest.mark.parametrize("is_leader", [True, False])
async def test_only_a_leader_deletes_policies_at_its_end(is_leader: bool, make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server)
    server.declare("g", replicas=1)
    await run_until(server, operator, lambda: bool(server.pods))
    server.remove("sandbox", "g")
    server.collect_garbage()
    await run_until(server, operator, lambda: not server.events)
    operator.is_leader = is_leader
    await operator.stop()
    assert bool(server.policies) is not is_leader


async def test_metrics_are_counted(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server, SandboxSettings(finished_ttl=60))
    server.declare("g", replicas=4)
    await run_until(server, operator, lambda: server.sandboxes["g"].get("status", {}).get("phase") == "Ready")
    value = operator.registry.get_sample_value
    assert value("swerl_sandboxes", {"phase": "ready"}) == 4
    assert value("swerl_sandbox_api_writes_total", {"verb": "create_pod"}) == 4
    assert value("swerl_sandbox_start_seconds_count") == 4
    await operator.kill()


async def test_event_before_the_answer_frees_no_slot(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    operator = InMemoryOperator(server, SandboxSettings(start_window=2, slot_timeout=60))
    create = server.create

    async def raise_conflict(resource: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await create(resource, body)
        while server.events:
            operator.deliver(*server.events.pop(0))
        return answer

    server.create = raise_conflict
    server.declare("g", replicas=6)
    await run_until(server, operator, lambda: len(server.pods) == 2, ready=False)
    await asyncio.sleep(0.2)
    assert len(server.pods) == 2
    await run_until(server, operator, lambda: server.sandboxes["g"].get("status", {}).get("phase") == "Ready")
    assert operator.registry.get_sample_value("swerl_sandbox_start_seconds_count") == 6
    await operator.kill()


async def test_new_operator_counts_running_pods_before_it_admits_a_group(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    first = InMemoryOperator(server)
    server.declare("young", replicas=4, maxConcurrent=LIMIT)
    await run_until(server, first, lambda: len(server.pods) == 4)
    server.declare("done", replicas=1, maxConcurrent=LIMIT)
    await run_until(server, first, lambda: "swesb-done-0" in server.pods and status_is_complete(server, "swesb-done-0"))
    server.remove("pod", "swesb-done-0")
    await run_until(server, first, lambda: server.sandboxes["done"]["status"]["phase"] == "Finished")
    await first.kill()
    server.events.clear()
    server.declare("old", replicas=5, maxConcurrent=LIMIT)
    server.sandboxes = {name: server.sandboxes[name] for name in ("old", "done", "young")}
    second = InMemoryOperator(server)
    await run_until(server, second, lambda: "done" not in server.sandboxes)
    await second.kill()
    assert server.peak["j"] <= LIMIT
    assert not [name for name in server.pods if "old" in name]


async def test_pods_gated_from_the_start_occupy_no_slot(make_api_server: Callable[..., Any]) -> None:
    server = make_api_server(random.Random(0))
    server.gates = [{"name": "kueue.x-k8s.io/admission"}]
    operator = InMemoryOperator(server, SandboxSettings(slot_timeout=60.0))
    server.declare("g", replicas=64)
    await run_until(server, operator, lambda: len(server.pods) == 64, ready=False, deliver=True)
    await operator.kill()
    assert len(server.pods) == 64
