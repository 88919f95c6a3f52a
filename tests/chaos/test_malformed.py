"""Objects drawn from the CRDs' schemas: each is refused or ends in a condition, and the operator serves on."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

import pytest
from swerl_api.crd import SWEEVAL, SWEIMAGESET, SWERLJOB, SWESANDBOX, Kind
from swerl_kube import ApiError

from tests.chaos.malformed import generate_specs
from tests.control_plane.operator_process import Operator
from tests.control_plane.sandboxes.conftest import API, User

NUMBER = int(os.environ.get("SWERL_MALFORMED", "300"))  # objects of all kinds together
SHARES = {SWESANDBOX: 0.6, SWERLJOB: 0.15, SWEEVAL: 0.15, SWEIMAGESET: 0.1}
# No registry gets requests for generated image names from all nodes at once.
NO_SUCH_IMAGES = [{"prefix": "", "replacement": "registry.swerl:5000/no-such/"}]
BATCH, PARALLEL = 500, 16
CONDITION_SECONDS = 90.0  # seconds until the last object of a batch has a condition


@pytest.fixture(scope="module")
def operator_options() -> dict[str, str]:
    return {"sandbox_limit": "4"}  # what fits the schema may want a thousand Pods


@pytest.mark.parametrize("kind", SHARES, ids=lambda kind: kind.kind)
async def test_each_is_refused_or_answered(kind: Kind, user: User, operator: Operator) -> None:
    process = operator.pid
    count = int(NUMBER * SHARES[kind])
    specs = generate_specs(kind, count, reproducible=NUMBER <= 1000)
    assert len(specs) >= count
    if kind is SWEIMAGESET:
        specs = [spec | {"registryRewrite": NO_SUCH_IMAGES} if isinstance(spec, dict) else spec for spec in specs]
    refused = accepted = 0
    for start in range(0, len(specs), BATCH):
        names = await submit(user, kind, specs[start : start + BATCH])
        accepted += len(names)
        refused += len(specs[start : start + BATCH]) - len(names)
        await user.until(partial(unanswered, user, kind, set(names)), lambda left: not left, CONDITION_SECONDS)
        await user.api.delete_all(API, kind.plural, user.namespace, labels="")
    print(f"{kind.kind}: {refused} refused, {accepted} answered by a condition")
    assert min(refused, accepted) > len(specs) / 20, f"no fair share: {refused} refused, {accepted} accepted"
    assert operator.alive and operator.pid == process, operator.log.read_text()[-4000:]
    assert operator.health("livez") == "ok\n"
    await user.declare("good", replicas=2)
    await user.phase("good", "Ready")
    await user.delete("good")


async def submit(user: User, kind: Kind, specs: list[Any]) -> list[str]:
    """Names of those that the API server took."""
    turns = asyncio.Semaphore(PARALLEL)

    async def create(number: int, spec: Any) -> str:
        name = f"m-{os.urandom(4).hex()}-{number}"
        metadata = {"name": name, "namespace": user.namespace}
        async with turns:
            try:
                await user.api.create(
                    kind.plural, {"apiVersion": API, "kind": kind.kind, "metadata": metadata, "spec": spec}
                )
            except ApiError as error:
                assert 400 <= error.status < 500, error
                return ""
        return name

    return list(filter(None, await asyncio.gather(*(create(number, spec) for number, spec in enumerate(specs)))))


async def unanswered(user: User, kind: Kind, names: set[str]) -> list[Any]:
    found = await user.api.list(API, kind.plural, user.namespace)
    return [
        item["spec"]
        for item in found
        if item["metadata"]["name"] in names and not (item.get("status") or {}).get("conditions")
    ]
