"""What a grader does when a Job of it comes to nothing, and how long it says that it took."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from swerl_agent.grading import Grader, Verdict
from swerl_agent.grading.framing import Report
from swerl_agent.grading.job import Infrastructure, JobRun, LimitExceeded, NoReport, Outcome
from swerl_api import GradingSpec, SandboxSpec

from .graded import A, B, log, task


class Cluster:
    """Takes what it is given."""

    async def create(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

    async def delete(self, *args: Any, **kwargs: Any) -> None: ...


async def graded(monkeypatch: pytest.MonkeyPatch, *outcomes: Outcome | Exception) -> tuple[Verdict, list[str]]:
    """The verdict when the Jobs, one after the other, come to `outcomes`; and their names."""
    remaining, jobs = list(outcomes), []

    async def run_job(client: Any, watch: Any, namespace: str, job: Any, maps: Sequence[Any], **how: Any) -> JobRun:
        jobs.append(job["metadata"]["name"])
        outcome = remaining.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return JobRun(outcome, "")

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)
    cluster: Any = Cluster()
    async with Grader(cluster, "n", GradingSpec(retries=2, cache=False)) as grader:
        return await grader.grade(task(eval_script="bin/test"), ""), jobs


def report(*lines: str) -> Report:
    return Report("eval", 0, 1.0, 9, log(*lines), (), (), b"")


PASSED, FAILED = report(f"PASSED {A}", f"PASSED {B}"), report(f"FAILED {A} - boom", f"PASSED {B}")
LOST = Infrastructure("node lost")


async def test_infrastructure_failure_is_graded_again_in_a_new_job(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, jobs = await graded(monkeypatch, LOST, LOST, PASSED)
    assert verdict.resolved
    assert len(set(jobs)) == 3


async def test_persistent_failure_gives_an_infrastructure_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, jobs = await graded(monkeypatch, LOST, LOST, LOST)
    assert (verdict.status, verdict.detail, len(jobs)) == ("infra_error", "node lost", 3)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [(FAILED, "unresolved"), (PASSED, "resolved"), (LimitExceeded("memory", "too much"), "unresolved")],
)
async def test_verdict_on_the_patch_is_never_tried_again(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome, status: str
) -> None:
    verdict, jobs = await graded(monkeypatch, outcome, PASSED)
    assert (verdict.status, len(jobs)) == (status, 1)


async def test_patch_that_always_ends_its_job_early_is_unresolved(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = await graded(monkeypatch, *[NoReport("killed")] * 3)
    assert (verdict.status, verdict.detail) == ("unresolved", "every run was cut short: killed")
    assert not verdict.lasting


@pytest.mark.parametrize(
    ("patch", "sent"), [("", b""), ("+a\n", b"+a\n"), ("+a", b"+a\n"), ("+a\r\n+\udcff", b"+a\r\n+\xff\n")]
)
async def test_patch_is_sent_byte_by_byte_and_ends_its_last_line(
    monkeypatch: pytest.MonkeyPatch, patch: str, sent: bytes
) -> None:
    found: list[bytes] = []

    async def run_job(client: Any, watch: Any, namespace: str, job: Any, maps: Sequence[Any], **how: Any) -> JobRun:
        files = {name: data for payload in maps for name, data in payload["binaryData"].items()}
        found.append(base64.b64decode(files["patch.diff.000"]))
        return JobRun(PASSED, "")

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)
    cluster: Any = Cluster()
    async with Grader(cluster, "n", GradingSpec(cache=False)) as grader:
        await grader.grade(task(eval_script="bin/test"), patch)
    assert found == [sent]


async def test_verdict_from_the_cache_took_as_long_as_looking_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_job(*args: Any, **kwargs: Any) -> JobRun:
        await asyncio.sleep(1)
        return JobRun(PASSED, "")

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)
    cluster: Any = Cluster()
    async with Grader(cluster, "n", GradingSpec()) as grader:
        first, second = [await grader.grade(task(eval_script="bin/test"), "") for _ in range(2)]
    assert (first.cached, second.cached) == (False, True)
    assert second.duration < 1 <= first.duration


async def test_after_a_network_was_reported_no_test_runs_before_the_isolation_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    isolations = ["proved", "proved", "reached 10.0.0.1:443", "proved", "proved"]
    awaited = []

    async def run_job(client: Any, watch: Any, namespace: str, job: Any, maps: Sequence[Any], **how: Any) -> JobRun:
        variables = job["spec"]["template"]["spec"]["containers"][0]["env"]
        awaited.append(any(each["name"] == "SWERL_AWAIT_PROBE" for each in variables))
        return JobRun(replace(PASSED, isolation=isolations.pop(0)), "")

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)
    cluster: Any = Cluster()
    async with Grader(cluster, "n", GradingSpec(retries=2, cache=False, contrast="never")) as grader:
        for _ in range(4):
            assert (await grader.grade(task(eval_script="bin/test"), "")).resolved
    assert awaited == [True, False, False, True, True]


def reporting(monkeypatch: pytest.MonkeyPatch, isolations: list[str]) -> None:
    """Make the Jobs, one after the other, pass with these words on their isolation."""

    async def run_job(*args: Any, **kwargs: Any) -> JobRun:
        return JobRun(replace(PASSED, isolation=isolations.pop(0)), "")

    monkeypatch.setattr("swerl_agent.grading.grader.run_job", run_job)


@pytest.mark.parametrize(
    ("isolation", "words"),
    [
        ("unproved", "isolation cannot be checked: it has no bash with /dev/tcp, python3 or nc: add one, or set"),
        ("unknown", "isolation cannot be checked: the probe in the grading Pod gave no answer in time"),
    ],
)
async def test_pod_that_cannot_prove_its_isolation_is_an_infrastructure_failure_until_one_has(
    monkeypatch: pytest.MonkeyPatch, isolation: str, words: str
) -> None:
    reporting(monkeypatch, [isolation, isolation, isolation, "proved", isolation])
    cluster: Any = Cluster()
    async with Grader(cluster, "n", GradingSpec(retries=1, cache=False, contrast="never")) as grader:
        refused = await grader.grade(task(eval_script="bin/test"), "")
        assert refused.status == "infra_error" and words in refused.detail
        for _ in range(2):  # beside the tests, code of a patch may end the probe: that masks no verdict
            assert (await grader.grade(task(eval_script="bin/test"), "")).resolved


async def test_image_without_a_tool_for_the_probe_is_graded_where_the_job_allows_any_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reporting(monkeypatch, ["unknown"])
    cluster: Any = Cluster()
    open_network = SandboxSpec(egress="allow")
    settings = GradingSpec(cache=False, contrast="never")
    async with Grader(cluster, "n", settings, sandbox=open_network) as grader:
        assert (await grader.grade(task(eval_script="bin/test"), "")).resolved


async def test_patch_that_does_not_apply_needs_no_proof_of_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, jobs = await graded(monkeypatch, replace(PASSED, stage="apply_failed", isolation="unknown"))
    assert (verdict.status, len(jobs)) == ("patch_apply_failed", 1)
