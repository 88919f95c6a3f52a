"""A group in gVisor: commands run on a kernel in user space, isolated and exactly once as in any other sandbox."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from swerl_agent.sandbox import Sandbox

from tests.control_plane.exec.conftest import IMAGE

if TYPE_CHECKING:
    from tests.control_plane.operator_process import Operator

RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}


async def test_group_in_gvisor_runs_commands_on_its_own_kernel(
    kubeconfig: str, namespace: str, operator: Operator
) -> None:
    machine = platform.release()
    claim = Sandbox.claim(
        IMAGE,
        2,
        kubeconfig=kubeconfig,
        namespace=namespace,
        runtime_class_name="gvisor",
        resources=RESOURCES,
        timeout=180,
    )
    async with claim as group:
        for sandbox in group:
            version = await sandbox.run("cat /proc/version")
            assert "gvisor" in version.output.lower() and machine not in version.output, version.output
            assert "gVisor" in (await sandbox.run("dmesg")).output
        first, second = group
        assert (await first.run("exit 7")).exit_code == 7
        await first.write("/tmp/own", "only here")
        assert await first.read("/tmp/own") == b"only here"
        assert (await second.run("test -e /tmp/own")).exit_code == 1
        assert (await first.run("sleep 60", timeout=2)).timed_out
        assert (await first.run("git --version && echo $((6 * 7))")).output.endswith("42\n")
