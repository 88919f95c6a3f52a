"""A node that must not run anything any more: its sandboxes are lost to it, and say so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.alone
Body = dict[str, Any]
TAINT = "test.swerl.dev/broken"


@pytest.fixture
def break_node(kubeconfig: str) -> Iterator[Callable[[], None]]:
    """Taints every node as one that nothing may run on; restored after the test."""

    def taint(effect: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", kubeconfig, "taint", "nodes", "--all", f"{TAINT}{effect}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def breaking() -> None:
        done = taint("=yes:NoExecute")
        assert done.returncode == 0, done.stderr

    yield breaking
    taint("-")
    wait = ["rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=90s"]
    subprocess.run(["kubectl", "--kubeconfig", kubeconfig, *wait], check=True, capture_output=True, timeout=120)


async def test_sandboxes_of_a_broken_node_are_lost(
    user: Any, reading: Callable[[Body, str], tuple[str, str, str]], break_node: Callable[[], None]
) -> None:
    await user.declare("stranded", replicas=2)
    await user.phase("stranded", "Ready")
    break_node()
    status = await user.until(lambda: user.status("stranded"), lambda s: s.get("phase") == "Failed", 60)
    state, reason, message = reading(status, "Finished")
    assert (state, reason) == ("True", "NodeLost") and "2 NodeLost" in message and "swesb-stranded-" in message
    events = await user.until(lambda: user.events("stranded"), bool, 10)
    assert {event["reason"] for event in events} == {"NodeLost"}
    await user.delete("stranded")
