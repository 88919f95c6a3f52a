"""One namespace of the real cluster with everything a SweRLJob needs, and queries of its state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.cluster import DemoCluster
from demo.job import Images, job_manifest, volume_folder
from demo.report import read_metrics

ALL_KINDS = (
    "pods,jobs,configmaps,secrets,services,swesandboxes,rayclusters,leases,serviceaccounts,roles,rolebindings,"
    "networkpolicies"
)


@dataclass
class ProductNamespace:
    """One namespace of the cluster, ready for a SweRLJob."""

    cluster: DemoCluster
    images: Images
    namespace: str
    jobs: list[str] = field(default_factory=list)

    @property
    def output(self) -> Path:
        """The output volume, as this machine sees it; every job has a folder of its name there."""
        return volume_folder(self.namespace)

    def manifest(self, name: str, algorithm: dict[str, Any]) -> dict[str, Any]:
        """The demo's job under another name, with other algorithm settings, evaluating nothing, beside other jobs.

        A rerun of a test gets a new name: the folder of its first try stays.
        """
        if name in self.jobs:
            self.cluster.kubectl("delete", "swerljob", name, "-n", self.namespace, "--ignore-not-found")
            name = f"{name}-{len(self.jobs) + 1}"
        job = job_manifest(self.images, name=name, namespace=self.namespace)
        job["spec"]["algorithm"] |= algorithm
        job["spec"].pop("evaluation")
        job["spec"]["trainer"]["headResources"]["requests"]["cpu"] = "100m"
        job["spec"]["grading"]["resources"] |= {"requests": {"cpu": "50m", "memory": "128Mi"}}
        return job

    def apply(self, job: dict[str, Any]) -> str:
        self.cluster.apply(job)
        self.jobs.append(job["metadata"]["name"])
        return self.jobs[-1]

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        """Change fields of a job."""
        patch = json.dumps({"spec": spec})
        self.cluster.kubectl("patch", "swerljob", name, "-n", self.namespace, "--type=merge", "-p", patch)

    def rows(self, kind: str = "step") -> list[dict[str, Any]]:
        """Metrics that the newest job wrote, one row per step or per other event of `kind`."""
        return read_metrics(self.output / self.jobs[-1], kind)

    def status(self, name: str, kind: str = "swerljob") -> dict[str, Any]:
        return dict(self.cluster.get(kind, name, "-n", self.namespace).get("status") or {})

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        found = [c for c in self.status(name).get("conditions") or [] if c["type"] == kind]
        return found[0] if found else {}

    def wait(self, description: str, done: Callable[[], Any], timeout: float) -> Any:
        """The first true answer of `done`; fails with `what` and every job's status after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if answer := done():
                return answer
            time.sleep(1)
        statuses = {name: self.status(name) for name in self.jobs}
        raise AssertionError(f"no {description} within {timeout:.0f} s; status: {json.dumps(statuses, indent=1)}")

    def finish(self, name: str, timeout: float, kind: str = "swerljob") -> dict[str, Any]:
        """The status once the job, or another object with such phases, is Complete; fails at once when it Failed."""

        def final() -> dict[str, Any] | None:
            status = self.status(name, kind)
            assert status.get("phase") != "Failed", json.dumps(status, indent=1)
            return status if status.get("phase") == "Complete" else None

        return dict(self.wait(f"completion of {name}", final, timeout))

    def objects(self, selector: str, kinds: str = ALL_KINDS) -> list[str]:
        """Names of the objects that carry the label selector."""
        answer = self.cluster.kubectl("get", kinds, "-n", self.namespace, "-l", selector, "-o", "name")
        return answer.split()
