"""What a SweImageSet asks of a registry, counted there; and the names of what it could not get."""

from __future__ import annotations

import os
import time

import pytest
from swerl_agent.cli import main

from tests.control_plane.operator_process import Operator

from .conftest import JobNamespace
from .counted_registry import counted_registry
from .test_image_sets import KIND, declare

PRESENT, ABSENT = 38, 4
LIMIT = 100  # requests for manifests a minute, from which on public registries refuse
SECONDS = 240


def test_requests_respect_rate_limits_and_missing_images_are_listed(
    kube: JobNamespace, operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    with counted_registry(f"counted-{os.getpid()}.swerl:5000") as registry:
        present = [registry.push(f"image-{number:02}") for number in range(PRESENT)]
        absent = [registry.reference(f"absent-{number}") for number in range(ABSENT)]
        images = [image for pair in zip(absent, present[:ABSENT], strict=True) for image in pair] + present[ABSENT:]
        started = time.monotonic()
        declare(kube, "counted", images=images, parallelPerNode=8)
        status = kube.until(lambda: kube.status("counted", KIND), lambda s: s.get("missing") == ABSENT, SECONDS)
        took = time.monotonic() - started
    most_requests = registry.most_in_a_minute("/manifests/")
    pulled = {path for _, method, path in registry.requests if "/blobs/" in path and method == "GET"}
    assert len(pulled) == 2 * PRESENT, "configuration and layer of each came through here"
    assert 60 <= most_requests < LIMIT, "close to what is allowed, and never above"
    assert status["missingImages"] == absent
    arguments = ["-n", kube.namespace, "--kubeconfig", kube.kubeconfig]
    assert main(["images", "missing", "counted", *arguments]) == 1
    assert capsys.readouterr().out.splitlines()[-ABSENT:] == absent
    kube.kubectl("delete", KIND, "counted")
    print(f"{most_requests} requests for manifests in a minute, {len(registry.requests)} of all kinds in {took:.0f} s")


def test_present_image_needs_no_registry(kube: JobNamespace, operator: Operator) -> None:
    with counted_registry(f"gone-{os.getpid()}.swerl:5000") as registry:
        image = registry.push("latest")  # which would be asked for each time if nothing were said
        declare(kube, "before", images=[image])
        kube.until_condition("before", "Ready", "AllPresent", kind=KIND)
    declare(kube, "after", images=[image], retries=0)
    assert kube.until_condition("after", "Ready", "AllPresent", kind=KIND)["status"] == "True"
    kube.kubectl("delete", KIND, "before", "after")
