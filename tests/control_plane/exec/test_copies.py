"""`swerl sandbox ls` and `swerl sandbox cp` at a running sandbox."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import MakePod


@pytest.fixture
def place(namespace: str, kubeconfig: str) -> list[str]:
    """Options that choose the module's namespace."""
    return ["--namespace", namespace, "--kubeconfig", kubeconfig]


async def sandbox(*words: str) -> tuple[int | None, str, str]:
    """Exit code, output and errors of `swerl sandbox WORDS`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "swerl_agent.cli", "sandbox", *words), stdout=-1, stderr=-1
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode, output.decode(), errors.decode()


async def test_files_and_folders_are_copied_both_ways(make_pod: MakePod, place: list[str], tmp_path: Path) -> None:
    pod = (await make_pod())["metadata"]["name"]
    sent = tmp_path / "sent"
    (sent / "inner").mkdir(parents=True)
    (sent / "inner/large").write_bytes(bytes(range(256)) * 12_000)
    (sent / "empty").touch()
    assert (await sandbox("cp", str(sent), f"{pod}:/tmp/new/place", *place))[0] == 0
    assert (await sandbox("cp", str(sent / "empty"), f"{pod}:/tmp/new/single", *place))[0] == 0
    code, output, errors = await sandbox("cp", f"{pod}:/tmp/new/place", str(tmp_path / "back"), "-o", "json", *place)
    assert code == 0 and json.loads(output)["bytes"] > 3_000_000, errors
    assert (tmp_path / "back/inner/large").read_bytes() == (sent / "inner/large").read_bytes()
    assert (await sandbox("cp", f"{pod}:/tmp/new/single", str(tmp_path / "single"), *place))[0] == 0
    assert (tmp_path / "single").read_bytes() == b""
    code, _, errors = await sandbox("cp", f"{pod}:/tmp/absent", str(tmp_path / "absent"), *place)
    assert code == 3 and "absent" in errors and not (tmp_path / "absent").exists()
    code, _, errors = await sandbox("cp", "here", "there", *place)
    assert code == 2 and "must be POD:PATH" in errors


async def test_link_that_leads_outside_is_left_out_and_named(
    make_pod: MakePod, place: list[str], tmp_path: Path
) -> None:
    pod = (await make_pod())["metadata"]["name"]
    script = ["sh", "-c", "mkdir /tmp/odd && echo 1 >/tmp/odd/kept && ln -s /etc/passwd /tmp/odd/link"]
    done = await asyncio.create_subprocess_exec(
        *("kubectl", "exec", "--kubeconfig", place[3], "-n", place[1], pod, "--", *script)
    )
    assert await done.wait() == 0
    code, output, errors = await sandbox("cp", f"{pod}:/tmp/odd", str(tmp_path / "odd"), "-o", "json", *place)
    assert code == 0 and "left out: " in errors and "link" in errors
    assert len(json.loads(output)["left_out"]) == 1
    assert [path.name for path in (tmp_path / "odd").iterdir()] == ["kept"]


async def test_sandboxes_are_listed(make_pod: MakePod, place: list[str]) -> None:
    pod = (await make_pod())["metadata"]["name"]
    code, output, errors = await sandbox("ls", *place)
    assert code == 0 and pod in output and "ready" in output, errors
    code, output, _ = await sandbox("ls", "--job", "no-such-job", "-o", "json", *place)
    assert code == 0 and json.loads(output) == []
