"""`swerl view` as a process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from .artifacts import write_job


async def command(tmp_path: Path, folder: str, *options: str) -> asyncio.subprocess.Process:
    """The running command; what it prints can be read."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "swerl_agent.cli", "view", folder, *options]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe)


async def start(tmp_path: Path, *options: str) -> tuple[asyncio.subprocess.Process, str]:
    """The running command, and the address it printed."""
    process = await command(tmp_path, "results", "--port", "0", *options)
    assert process.stdout
    line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    found = re.search(r"http://\S+", line)
    assert found, line
    return process, found[0]


async def page_of(address: str, has: str) -> str:
    """The page, once it has this text."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        for _ in range(100):
            async with http.get(address) as answer:
                content = await answer.text()
            if has in content:
                return content
            await asyncio.sleep(0.2)
    raise AssertionError(content)


async def stop(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGTERM)
    return await asyncio.wait_for(process.wait(), 20)


async def test_folder_is_served_until_a_signal(tmp_path: Path) -> None:
    write_job(tmp_path / "results/demo", steps=1)
    process, address = await start(tmp_path)
    try:
        assert address.startswith("http://127.0.0.1:") and "token" not in address
        assert "demo" in await page_of(address, ">8<")
        write_job(tmp_path / "results/later", steps=1)
        assert "later" in await page_of(address, "later")
    finally:
        assert await stop(process) == 0


@pytest.mark.parametrize(
    ("host", "printed", "reached_at"),
    [("0.0.0.0", "0.0.0.0", ["127.0.0.1"]), ("::", "[::]", ["127.0.0.1", "[::1]"])],
)
async def test_other_addresses_need_the_printed_token(
    tmp_path: Path, host: str, printed: str, reached_at: list[str]
) -> None:
    write_job(tmp_path / "results/demo", steps=1)
    process, address = await start(tmp_path, "--host", host)
    try:
        assert f"//{printed}:" in address and "?token=" in address
        for reached in reached_at:
            assert "demo" in await page_of(address.replace(printed, reached), ">8<")
    finally:
        assert await stop(process) == 0


async def test_log_is_json_on_request(tmp_path: Path) -> None:
    write_job(tmp_path / "results/demo", steps=1)
    process = await command(tmp_path, "results", "--port", "0", "--log-format", "json")
    assert process.stderr and process.stdout
    line = json.loads(await asyncio.wait_for(process.stderr.readline(), 60))
    assert line["level"] == "info" and line["message"].startswith("serving results at http://127.0.0.1:"), line
    assert await stop(process) == 0
    assert await process.stdout.read() == b""


async def test_file_that_is_no_index_is_kept(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results.jsonl").write_text("{}")
    process = await command(tmp_path, "results", "--index", str(tmp_path / "results.jsonl"))
    _, stderr = await process.communicate()
    assert process.returncode == 2 and "results.jsonl is not an index of the console" in stderr.decode()
    assert (tmp_path / "results.jsonl").read_text() == "{}"


@pytest.mark.parametrize("folder", ["missing", "file"])
async def test_folder_that_is_none_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    process = await command(tmp_path, folder)
    _, stderr = await process.communicate()
    assert process.returncode == 2 and f"{folder} is not a folder" in stderr.decode()
