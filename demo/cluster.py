"""kubectl and helm against the demo's cluster: the local one, or the user's own with SWERL_CLUSTER=existing.

Guarantees: every command goes to the cluster that was chosen at the start.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.layout import cluster_name, state_folder, swerl_home
from demo.steps import StepFailed, run

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class DemoCluster:
    kubeconfig: Path
    local: bool  # made by `make cluster` on this machine

    @classmethod
    def from_environment(cls) -> DemoCluster:
        """The user's cluster when SWERL_CLUSTER=existing, else the local one (whether it runs or not) of
        SWERL_CLUSTER_NAME."""
        if os.environ.get("SWERL_CLUSTER") == "existing":
            path = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
            if not path.is_file():
                raise StepFailed(f"SWERL_CLUSTER=existing, but there is no kubeconfig at {path}; set KUBECONFIG")
            return cls(path, local=False)
        return cls(state_folder(swerl_home(), cluster_name()) / "kubeconfig", local=True)

    def start(self) -> None:
        """Start or repair the local cluster; a user's own must respond."""
        if self.local:
            run(["make", "--no-print-directory", "-C", str(ROOT), "cluster"], show=True)
        self.kubectl("version", "--request-timeout=15s")

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 300) -> str:
        return run(["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments], stdin=stdin, timeout=timeout)

    def helm(self, *arguments: str) -> str:
        return run(["helm", "--kubeconfig", str(self.kubeconfig), *arguments])

    def apply(self, *manifests: dict[str, Any]) -> None:
        """Server-side apply; raises StepFailed with the API server's message."""
        documents = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        self.kubectl(
            "apply", "--server-side", "--force-conflicts", "--field-manager=swerl-demo", "-f", "-", stdin=documents
        )

    def get(self, *arguments: str) -> dict[str, Any]:
        """One object (or list) as a dict; empty when it does not exist."""
        output = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        return dict(json.loads(output)) if output.strip() else {}

    def wait_gone(self, timeout: float, *arguments: str) -> None:
        """Wait until `kubectl get` of `what` returns nothing; StepFailed after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.kubectl("get", *arguments, "--ignore-not-found", "-o", "name").strip():
            if time.monotonic() > deadline:
                raise StepFailed(f"`kubectl get {' '.join(arguments)}` still returns objects after {timeout:.0f} s")
            time.sleep(1)
