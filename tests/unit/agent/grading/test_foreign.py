"""What the end of a grading Pod without a report means: the kernel refused its program, the cluster took it, or it was
killed. Words of a patch's code count for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from swerl_agent.grading.job import GradingForeignArchitecture, Infrastructure, LimitExceeded, NoReport, _final_outcome
from swerl_agent.grading.manifests import CONTAINER
from swerl_agent.grading.pods import PodState

UNITTEST_STATUSES = "exec /usr/bin/bash: exec format error\n"


@dataclass
class EndedLog:
    """The log of a Pod without a report; `begun`: whether the wrapper's first line was in it."""

    begun: bool

    async def rest(self) -> None:
        return None


@pytest.mark.parametrize(("begun", "error"), [(False, GradingForeignArchitecture), (True, NoReport)])
async def test_words_of_the_kernel_count_only_before_the_wrapper_began(begun: bool, error: type[Exception]) -> None:
    state = PodState("grading-1", "", started=True, ended=True, reason="Error", message=UNITTEST_STATUSES)
    reader: Any = EndedLog(begun)
    with pytest.raises(error) as raised:
        await _final_outcome(reader, state)
    assert type(raised.value) is error and "exec format error" in str(raised.value)


@pytest.mark.parametrize(("status", "error"), [("True", Infrastructure), ("False", NoReport)])
async def test_evicted_pod_says_nothing_about_its_patch(status: str, error: type[Exception]) -> None:
    target = {"type": "DisruptionTarget", "status": status, "reason": "EvictionByEvictionAPI", "message": "evicting"}
    ended = {"name": CONTAINER, "state": {"terminated": {"reason": "Error", "exitCode": 143}}}
    pod = {"metadata": {"name": "g-1"}, "status": {"conditions": [target], "containerStatuses": [ended]}}
    reader: Any = EndedLog(begun=True)
    with pytest.raises(Infrastructure) as raised:
        await _final_outcome(reader, PodState.of(pod, deleted=False))
    assert type(raised.value) is error
    assert ("EvictionByEvictionAPI: evicting" in str(raised.value)) == (status == "True")


async def test_pod_over_its_storage_limit_exceeded_it_and_one_of_a_full_node_did_not() -> None:
    reader: Any = EndedLog(begun=True)
    own, node = (
        "Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.",
        "The node was low on disk.",
    )
    states = [
        PodState.of(
            {"metadata": {"name": "g-1"}, "status": {"phase": "Failed", "reason": "Evicted", "message": message}},
            deleted=False,
        )
        for message in (own, node)
    ]
    assert await _final_outcome(reader, states[0]) == LimitExceeded("storage", own)
    with pytest.raises(Infrastructure, match="Evicted The node was low on disk"):
        await _final_outcome(reader, states[1])


async def test_container_killed_for_memory_exceeded_its_limit_on_a_drained_node_too() -> None:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}
    ended = {"name": CONTAINER, "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    pod = {"metadata": {"name": "g-1"}, "status": {"conditions": [target], "containerStatuses": [ended]}}
    reader: Any = EndedLog(begun=True)
    outcome = await _final_outcome(reader, PodState.of(pod, deleted=False))
    assert isinstance(outcome, LimitExceeded) and outcome.what == "memory"
