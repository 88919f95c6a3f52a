"""SWE-ReX's own server in each Pod, so that its way of executing can be compared: the image gets what the server needs.

The image has Python, not the server: its packages are put into a folder of the Pod, as its deployments do with pipx.
"""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import subprocess
import sys
from pathlib import Path

import aiohttp
from swerl_agent.sandbox import PodConnector, Session
from swerl_agent.sandbox.folders import upload
from swerl_kube import KubeClient

from cluster.layout import swerl_home
from demo.cluster import ROOT
from tests.bench.exec_peers.clients import PodTargets

PORT = 8880
FOLDER = "/opt/rex"
SERVER = f"python3 -m swerex --host 0.0.0.0 --port {PORT} --auth-token"
UP_SECONDS = 120.0
AT_ONCE = 4  # Pods that are given the packages at the same time


async def servers(client: KubeClient, place: PodTargets) -> PodTargets:
    """The place with a server in each Pod; raises RuntimeError when one does not answer."""
    version = await _python(client, place)
    folder = await asyncio.to_thread(packages, version)
    token, turn = secrets.token_hex(8), asyncio.Semaphore(AT_ONCE)

    async def start(index: int) -> str:
        pod = await client.get("v1", "pods", place.namespace, place.pods[index])
        async with turn, Session(PodConnector(client, place.namespace, place.pods[index], uid=place.uids[index])) as s:
            await upload(s, folder, FOLDER)
            await s.run(f"PYTHONPATH={FOLDER} nohup setsid {SERVER} {token} >/tmp/rex 2>&1 &", timeout=30)
        address = f"http://{pod['status']['podIP']}"
        await until_up(f"{address}:{PORT}", token)
        return f"{address}:{PORT}"

    addresses = await asyncio.gather(*(start(index) for index in range(len(place.pods))))
    return dataclasses.replace(place, rex=tuple(addresses), rex_token=token)


async def _python(client: KubeClient, place: PodTargets) -> str:
    async with Session(PodConnector(client, place.namespace, place.pods[0], uid=place.uids[0])) as session:
        done = await session.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'", timeout=60)
    return done.stdout.decode().strip()


def packages(version: str) -> Path:
    """A folder with the server for that Python; made once."""
    folder = swerl_home() / "bench-sandbox" / f"rex-{version}"
    if not folder.exists():
        fresh = folder.with_suffix(".new")
        uv = str(Path(sys.executable).with_name("uv"))
        pins = ["-c", str(ROOT / "requirements" / "dev.txt")]
        where = ["--target", str(fresh), "--python-version", version, "--only-binary", ":all:"]
        subprocess.run([uv, "pip", "install", "-q", *where, *pins, "swe-rex"], check=True)
        fresh.replace(folder)
    return folder


async def until_up(address: str, token: str, pause: float = 0.5) -> None:
    """Wait until the server at `address` answers, asked every `pause` seconds."""
    async with aiohttp.ClientSession(headers={"X-API-Key": token}) as http, asyncio.timeout(UP_SECONDS):
        while True:
            try:
                async with http.get(f"{address}/is_alive") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(pause)
