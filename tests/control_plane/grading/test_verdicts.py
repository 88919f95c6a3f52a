"""Verdicts of real grading Jobs."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.grading import Grader, GradingError
from swerl_agent.grading.manifests import CONTAINER
from swerl_agent.tasks import Task
from swerl_kube import KubeClient, resource_path

from .conftest import settings
from .task_image import FIXED, SOURCE, Repository, push_image


async def test_reference_fix_passes_soon_after_its_tests(grader: Grader, task: Task) -> None:
    first = await grader.grade(task, task.ground_truth.patch)  # pulls the image, and waits for the isolation probe
    assert first.report["isolation"] == "proved"
    verdicts = [await grader.grade(task, task.ground_truth.patch) for _ in range(3)]
    for verdict in verdicts:
        assert verdict.resolved, verdict
        assert verdict.report["tests_status"]["FAIL_TO_PASS"]["success"] == ["tests/test_calc.py::test_clamp"]
    seconds = [verdict.report["seconds"] + verdict.report["contrast_seconds"] for verdict in verdicts]
    assert (
        min(each.duration - spent for each, spent in zip(verdicts, seconds, strict=True)) <= 8.0
    )  # the least disturbed


async def test_no_change_fails(grader: Grader, task: Task) -> None:
    verdict = await grader.grade(task, "")
    assert (verdict.status, verdict.detail) == ("unresolved", "FAIL_TO_PASS 0/1, PASS_TO_PASS 1/1")
    assert verdict.report["tests_status"]["PASS_TO_PASS"]["success"] == ["tests/test_calc.py::test_double"]


async def test_patch_for_other_code_does_not_apply(grader: Grader, task: Task) -> None:
    patch = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n zzz\n-yyy\n+xxx\n"
    verdict = await grader.grade(task, patch)
    assert verdict.status == "patch_apply_failed"
    assert "calc.py" in verdict.detail


async def test_endless_code_is_a_timeout(
    client: KubeClient, namespace: str, task: Task, repository: Repository
) -> None:
    patch = repository.patch({"calc.py": "while True:\n    pass\n"})
    async with Grader(client, namespace, settings(timeout_seconds=3)) as grader:
        verdict = await grader.grade(task, patch)
    assert verdict.status == "timeout"
    assert re.fullmatch("no readable test result; the eval script ended with (124|137)", verdict.detail), verdict


async def test_memory_above_the_limit_is_a_failure_of_the_patch(
    grader: Grader, task: Task, repository: Repository
) -> None:
    patch = repository.patch({"calc.py": "hoard = []\nwhile True:\n    hoard.append(bytes([1]) * 10_000_000)\n"})
    verdict = await grader.grade(task, patch)
    assert verdict.status == "unresolved", verdict
    assert re.search("killed by signal 9 at the memory limit of the Pod|more memory than its limit", verdict.detail)


async def test_evicted_pod_is_an_infrastructure_error(
    client: KubeClient, namespace: str, grader: Grader, task: Task, repository: Repository
) -> None:
    patch = repository.patch({"calc.py": f"import time\ntime.sleep(50)\n{FIXED}"})
    grading = asyncio.create_task(grader.grade(task, patch))
    pod = await asyncio.wait_for(reporting_pod(client, namespace), 60)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    await client.request("POST", resource_path("v1", "pods", namespace, pod, "eviction"), body=eviction)
    verdict = await asyncio.wait_for(grading, 45)
    assert verdict.status == "infra_error" and "EvictionByEvictionAPI" in verdict.detail, verdict


async def reporting_pod(client: KubeClient, namespace: str) -> str:
    """Name of the grading Pod, once the wrapper in it has begun."""
    async for event in client.watch("v1", "pods", namespace, labels="swerl.dev/role=grading"):
        status = event.object.get("status") or {}
        if status.get("phase") == "Running" and "deletionTimestamp" not in event.object["metadata"]:
            name = str(event.object["metadata"]["name"])
            async for _ in client.follow_logs(namespace, name, container=CONTAINER, silence=60):
                return name
    raise AssertionError("the watch ended")


async def test_image_that_does_not_exist_is_an_infrastructure_error(grader: Grader, task: Task) -> None:
    verdict = await grader.grade(replace(task, image="registry.swerl:5000/swe-rl/no-such-image:1"), "")
    assert verdict.status == "infra_error"
    assert "no-such-image" in verdict.detail


async def test_image_of_a_user_without_rights_is_graded_by_root(
    grader: Grader, task: Task, repository: Repository
) -> None:
    image = push_image(repository, user="nobody")
    verdict = await grader.grade(replace(task, image=image), task.ground_truth.patch)
    assert (verdict.status, verdict.report["shielded"]) == ("resolved", True), verdict


async def test_image_with_another_base_is_an_infrastructure_error(grader: Grader, task: Task) -> None:
    verdict = await grader.grade(replace(task, base_commit="0" * 40), "")
    assert verdict.status == "infra_error"
    assert "base commit" in verdict.detail


async def test_unknown_parser_is_refused(grader: Grader, task: Task) -> None:
    with pytest.raises(GradingError, match="no log parser 'parse_log_nothing'"):
        await grader.grade(replace(task, ground_truth=replace(task.ground_truth, log_parser="parse_log_nothing")), "")


async def test_namespace_that_does_not_exist_is_named(client: KubeClient, task: Task) -> None:
    async with Grader(client, "no-such-namespace", settings()) as grader:
        with pytest.raises(GradingError, match="namespace no-such-namespace does not exist"):
            await grader.grade(task, "")


async def test_equal_requests_share_one_job_and_later_ones_the_cache(
    client: KubeClient, namespace: str, task: Task, cache_folder: Path
) -> None:
    async with Grader(client, namespace, settings(cache=True), cache_directory=cache_folder) as grader:
        first, second = await asyncio.gather(grader.grade(task, ""), grader.grade(task, ""))
        assert first.report is second.report
        assert first == replace(second, duration=first.duration)
        assert (await grader.grade(task, "")).cached
        assert not (await grader.grade(task, "", fresh=True)).cached
    async with Grader(client, namespace, settings(cache=True), cache_directory=cache_folder) as second_grader:
        assert (await second_grader.grade(task, "", image=first.image)).cached
        # The image's name now means another image, as a sandbox reported.
        moved = await second_grader.grade(task, "", image=f"{first.image.rpartition(':')[0]}:{'0' * 64}")
        assert (moved.cached, moved.image) == (False, first.image)


async def test_large_patch_arrives_whole(grader: Grader, task: Task, repository: Repository) -> None:
    table = "\n".join(f"# {number:040x}" for number in range(60_000))
    verdict = await grader.grade(task, repository.patch({"calc.py": FIXED, "table.py": table + "\n"}))
    assert verdict.resolved, verdict


async def test_much_output_does_not_hide_the_result(grader: Grader, task: Task, repository: Repository) -> None:
    noisy_script = (
        FIXED
        + "\nimport atexit, os\natexit.register(lambda: [os.write(2, b'x' * 49 + b'\\n') for _ in range(220_000)])\n"
    )
    verdict = await grader.grade(task, repository.patch({"calc.py": noisy_script}))
    assert verdict.resolved, verdict
    assert verdict.report["log_bytes"] > 10_000_000


async def test_grading_leaves_no_objects(client: KubeClient, namespace: str, grader: Grader, task: Task) -> None:
    await grader.grade(task, "")
    for _ in range(40):
        selector = "swerl.dev/role=grading"
        kinds = (("batch/v1", "jobs"), ("v1", "pods"), ("v1", "configmaps"))
        remaining = [
            f"{kind}/{item['metadata']['name']}"
            for api, kind in kinds
            for item in await client.list(api, kind, namespace, labels=selector)
        ]
        if not remaining:
            return
        await asyncio.sleep(0.5)
    pytest.fail(f"left behind: {remaining}")


async def test_concurrent_gradings_all_get_verdicts(
    client: KubeClient, namespace: str, task: Task, repository: Repository
) -> None:
    patches = [repository.patch({"calc.py": (FIXED if n % 2 else SOURCE) + f"# {n}\n"}) for n in range(6)]
    async with Grader(client, namespace, settings(max_concurrent=3)) as grader:
        verdicts = await asyncio.gather(*(grader.grade(task, patch) for patch in patches))
    assert [verdict.resolved for verdict in verdicts] == [bool(n % 2) for n in range(6)]


async def test_refused_grading_pod_is_an_infrastructure_error_in_the_api_servers_words(
    client: KubeClient, namespace: str, task: Task
) -> None:
    large = settings(resources={"limits": {"cpu": "100m", "memory": "700Mi"}})
    limits = {"limits": [{"type": "Container", "max": {"memory": "600Mi"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    await client.create("limitranges", body, namespace=namespace)
    try:
        async with Grader(client, namespace, large) as grader:
            verdict = await asyncio.wait_for(grader.grade(task, ""), 60)
    finally:
        await client.delete("v1", "limitranges", namespace, "small")
    assert verdict.status == "infra_error"
    assert "maximum memory usage per Container is 600Mi" in verdict.detail
