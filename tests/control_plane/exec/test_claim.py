"""Claims of sandboxes by a program: use, release, and removal after the program was killed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.sandbox import ClaimEnded, FileError, ImagePullFailed, NotReady, Sandbox, blocking
from swerl_api import API_VERSION
from swerl_kube import KubeClient

from tests.control_plane.exec.conftest import IMAGE, SMALL
from tests.control_plane.operator_process import Operator


async def remaining_objects(client: KubeClient, namespace: str) -> list[str]:
    """What claims have made and not removed."""
    kinds = [(API_VERSION, "swesandboxes"), ("v1", "pods"), ("coordination.k8s.io/v1", "leases")]
    lists = [await client.list(api, kind, namespace, labels="swerl.dev/job=swerl-claim") for api, kind in kinds]
    return [item["metadata"]["name"] for found in lists for item in found]


async def until_nothing_is_left(client: KubeClient, namespace: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while found := await remaining_objects(client, namespace):
        assert time.monotonic() < deadline, f"still there after {seconds:.0f} s: {found}"
        await asyncio.sleep(0.5)


async def test_claim_runs_commands_and_copies_files(
    client: KubeClient, namespace: str, kubeconfig: str, operator: Operator, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "data").write_bytes(bytes(range(256)) * 5000)
    (source / "link").symlink_to("inner/data")
    async with Sandbox.claim(IMAGE, 2, namespace=namespace, kubeconfig=kubeconfig, resources=SMALL) as group:
        results = await asyncio.gather(*(sandbox.run("hostname; exit 3") for sandbox in group))
        assert [r.stdout.decode().strip() for r in results] == [sandbox.name for sandbox in group]
        assert {r.exit_code for r in results} == {3}
        sandbox = group[0]
        await sandbox.upload(source, "/srv/put")
        assert (await sandbox.run("cd /srv/put && cmp inner/data link && wc -c <link")).stdout.strip() == b"1280000"
        await sandbox.download("/srv/put", tmp_path / "back")
        assert (tmp_path / "back/link").read_bytes() == (source / "inner/data").read_bytes()
        await sandbox.write("/srv/note", "héllo\n")
        await sandbox.download("/srv/note", tmp_path / "note")
        assert (tmp_path / "note").read_text() == "héllo\n" and await sandbox.read("/srv/note") == "héllo\n".encode()
        with pytest.raises(FileError, match="/srv/none"):
            await sandbox.download("/srv/none", tmp_path / "none")
        with pytest.raises(FileError, match="neither a file nor a folder"):
            await sandbox.upload(tmp_path / "none", "/srv/none")
        await group[1].release()
        assert (await sandbox.run("true")).exit_code == 0
    await until_nothing_is_left(client, namespace, 15)


async def test_end_of_a_claim_deletes_its_pods_at_once(
    client: KubeClient, namespace: str, kubeconfig: str, operator: Operator
) -> None:
    async with Sandbox.claim(IMAGE, 2, namespace=namespace, kubeconfig=kubeconfig, resources=SMALL) as group:
        names = [sandbox.name for sandbox in group]
    assert [await client.find("v1", "pods", namespace, name) for name in names] == [None, None]


async def test_download_stays_inside_its_target(
    namespace: str, kubeconfig: str, operator: Operator, tmp_path: Path
) -> None:
    async with Sandbox.claim(IMAGE, namespace=namespace, kubeconfig=kubeconfig, resources=SMALL) as (sandbox,):
        await sandbox.run("mkdir /srv/bad && ln -s /etc/passwd /srv/bad/leak && echo x >/srv/bad/kept")
        [left_out] = await sandbox.download("/srv/bad", tmp_path / "bad")
        assert "leak" in left_out and [path.name for path in (tmp_path / "bad").iterdir()] == ["kept"]
    started = time.monotonic()
    with pytest.raises(ClaimEnded, match="the claim has ended"):
        await sandbox.run("true")
    assert time.monotonic() - started < 1


async def test_impossible_claim_names_the_cause(namespace: str, kubeconfig: str, operator: Operator) -> None:
    options: dict[str, Any] = {"namespace": namespace, "kubeconfig": kubeconfig, "resources": SMALL, "timeout": 5}
    with pytest.raises(NotReady, match=r"(?i)pull|image"):
        async with Sandbox.claim("registry.swerl:5000/swe-rl/no-such-image:1", 2, **options):
            pass


async def test_claim_with_pull_policy_never_fails_at_once(namespace: str, kubeconfig: str, operator: Operator) -> None:
    options: dict[str, Any] = {"namespace": namespace, "kubeconfig": kubeconfig, "resources": SMALL, "timeout": 300}
    absent, started = "registry.swerl:5000/swe-rl/never-pulled:1", time.monotonic()
    with pytest.raises(ImagePullFailed, match=r"never-pulled.*Never"):
        async with Sandbox.claim(absent, 2, image_pull_policy="Never", **options):
            pass
    assert time.monotonic() - started < 25  # with time to spare for a busy node; a pull would be tried for 30 s


async def test_claim_without_login_profile(namespace: str, kubeconfig: str, operator: Operator) -> None:
    options: dict[str, Any] = {"namespace": namespace, "kubeconfig": kubeconfig, "resources": SMALL}
    async with Sandbox.claim(IMAGE, login=False, **options) as (sandbox,):
        await sandbox.write("/etc/profile.d/seen.sh", "export SEEN=1\n")
        assert [(await sandbox.run("echo $SEEN", login=login)).stdout for login in (None, True)] == [b"\n", b"1\n"]


def test_blocking_calls(namespace: str, kubeconfig: str, operator: Operator) -> None:
    with blocking.BlockingSandbox.claim(IMAGE, namespace=namespace, kubeconfig=kubeconfig, resources=SMALL) as group:
        group[0].write("/srv/x", b"1")
        result = group[0].run("cat x; sleep 60", cwd="/srv", timeout=1)
        assert result.timed_out and result.stdout == b"1"


async def test_blocking_calls_work_inside_a_running_event_loop(
    namespace: str, kubeconfig: str, operator: Operator
) -> None:
    """As in a notebook, whose cells run in a loop."""
    with blocking.BlockingSandbox.claim(IMAGE, namespace=namespace, kubeconfig=kubeconfig, resources=SMALL) as [
        sandbox
    ]:
        assert sandbox.run("echo $((6 * 7))").output == "42\n"
        sandbox.write("/srv/x", b"1")
        assert sandbox.read("/srv/x") == b"1"
    with pytest.raises(RuntimeError, match="the claim has ended"):
        sandbox.run("true")


async def test_killed_program_leaves_no_sandbox(
    client: KubeClient, namespace: str, kubeconfig: str, operator: Operator
) -> None:
    program = (
        "import sys, time\nfrom swerl_agent.sandbox.blocking import BlockingSandbox\n"
        f"options = dict(namespace={namespace!r}, kubeconfig={kubeconfig!r}, resources={SMALL!r})\n"
        f"with BlockingSandbox.claim({IMAGE!r}, 2, **options):\n"
        "    print('claimed', flush=True)\n    time.sleep(600)\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"claimed\n"
    process.kill()
    await process.communicate()
    assert len(await remaining_objects(client, namespace)) == 4
    await until_nothing_is_left(client, namespace, 60)
