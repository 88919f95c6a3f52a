"""Our own sandboxes: claimed when the trajectory begins, and declared ahead of it as a driver does."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_agent.sandbox import Sandbox, Session
from swerl_agent.sandbox.group import SandboxGroup
from swerl_api.names import JOB_LABEL
from swerl_api.swesandbox import SweSandboxSpec

from tests.bench.trajectories.commands import check
from tests.bench.trajectories.way import JOB, TIMEOUT, Place, spec


class Claimed:
    """`Sandbox.claim` as any program calls it: a group of one, admitted, checked for isolation, deleted."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def prepare(self, names: Sequence[str]) -> None:
        """Nothing is prepared."""

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        place, settings = self._place, spec(self._place.image)
        claim = Sandbox.claim(
            place.image, client=place.client, kubeconfig=place.kubeconfig, namespace=place.namespace, name=name,
            job=JOB, login=False, resources=settings["resources"],
        )  # fmt: skip
        async with claim as [sandbox]:
            await _run(sandbox.session, commands)
        await place.pods.gone(sandbox.name)


class Prefetched:
    """One group for all trajectories that start together, declared and claimed before they start."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._claims: dict[str, tuple[SandboxGroup, int, Session]] = {}  # by trajectory

    async def prepare(self, names: Sequence[str]) -> None:
        place = self._place
        group = await SandboxGroup.declare(
            place.client, name=f"{names[0]}-group", namespace=place.namespace, labels={JOB_LABEL: JOB},
            spec=SweSandboxSpec.model_validate(spec(place.image) | {"replicas": len(names)}),
        )  # fmt: skip
        group.login = False
        group.prefetch()
        for ordinal, name in enumerate(names):
            self._claims[name] = group, ordinal, await group.claim(ordinal)

    async def trajectory(self, name: str, commands: Sequence[str]) -> None:
        group, ordinal, session = self._claims[name]
        await _run(session, commands)
        await group.release(ordinal)
        del self._claims[name]
        if all(other is not group for other, _, _ in self._claims.values()):
            await group.delete()
        await self._place.pods.gone(group.pod_name(ordinal))


async def _run(session: Session, commands: Sequence[str]) -> None:
    for command in commands:
        result = await session.run(command, timeout=TIMEOUT)
        check(command, result.exit_code, len(result.stdout))
