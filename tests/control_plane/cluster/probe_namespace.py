"""The tests' hands: one cluster's command line and API, and Pods of the probe image."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


def cluster_command(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`python3 -m cluster ...` as a user types it."""
    command = [sys.executable, "-m", "cluster", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


@dataclass(frozen=True)
class ProbeNamespace:
    """One namespace of one cluster."""

    kubectl_path: str
    kubeconfig: str
    namespace: str
    image: str

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [self.kubectl_path, "--kubeconfig", self.kubeconfig, "-n", self.namespace, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)

    def apply(self, *objects: Json) -> None:
        done = self.kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )
        assert done.returncode == 0, done.stderr

    def get(self, kind: str, name: str) -> Json:
        done = self.kubectl("get", kind, name, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: Json = json.loads(done.stdout)
        return found

    def exec(self, pod: str, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        flags = ["-i"] if stdin is not None else []
        return self.kubectl("exec", *flags, pod, "--", "/probe", *command, stdin=stdin)

    def reachability(self, pod: str, targets: dict[str, str]) -> dict[str, bool]:
        """Which targets (name -> kind:address) `pod` reaches, all tried at once."""
        done = self.exec(pod, "matrix", *(f"{name}={target}" for name, target in targets.items()))
        assert done.returncode == 0, done.stderr
        return {name: output == "ok" for name, output in json.loads(done.stdout).items()}

    def wait_running(self, *pods: str) -> dict[str, str]:
        """Address of each Pod once all run and are Ready."""
        done = self.kubectl("wait", "--for=condition=Ready", "--timeout=100s", *(f"pod/{name}" for name in pods))
        assert done.returncode == 0, done.stderr + self.kubectl("describe", "pods").stdout[-3000:]
        return {name: self.get("pod", name)["status"]["podIP"] for name in pods}

    def pod(self, name: str, *command: str, labels: Json | None = None, **spec: Any) -> Json:
        container = {"name": "probe", "image": self.image, "args": list(command), "ports": spec.pop("ports", [])}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }


def eventually(condition: Callable[[], bool], description: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {description}"
        time.sleep(0.3)
