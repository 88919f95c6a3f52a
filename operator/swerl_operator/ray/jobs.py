"""The driver as a Ray job, over the Ray Jobs HTTP API of the head.

Guarantees: submitting twice has the effect of once (a known submission id is adopted); a missing answer is a state of
its own, never an exception.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import aiohttp
from swerl_api.addresses import url_host
from swerl_api.names import ERROR_PREFIX, ROUTER_PORT
from swerl_kube import Json

from .cluster import DASHBOARD_PORT
from .credentials import RayCredentials

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
UNREACHABLE_TIMEOUT_SECONDS = 120.0  # a running head whose dashboard does not answer for this long counts as lost
EXIT_NO_RETRY = 78  # sysexits EX_CONFIG: the driver reports that another attempt would fail the same way
LOG_TAIL_LINES = 15
LOG_TAIL_CHARACTERS = 1500

DriverPhase = Literal["unreachable", "absent", "pending", "running", "succeeded", "failed"]
_PHASES: dict[str, DriverPhase] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "STOPPED": "failed",
}


@dataclass(frozen=True)
class DriverState:
    """The state of a driver. absent: Ray answers and has no such submission."""

    phase: DriverPhase
    message: str = ""
    exit_code: int | None = None


UNREACHABLE = DriverState("unreachable")


@dataclass(frozen=True)
class Submission:
    """A driver to start."""

    id: str
    entrypoint: str
    metadata: Mapping[str, str]  # shown by Ray


@dataclass(frozen=True)
class RayHead:
    """Where a Ray head answers, and what it asks for."""

    address: str  # an IP
    credentials: RayCredentials


class UnreachableTimer:
    """Measures how long Ray has not answered for a submission."""

    def __init__(self) -> None:
        self._last_answer: dict[str, float] = {}  # submission → monotonic time

    def seconds(self, submission: str, *, answers: bool) -> float:
        """Seconds since Ray answered for `submission`, or since the first call; `answers`: Ray answers now."""
        now = time.monotonic()
        if answers or submission not in self._last_answer:
            self._last_answer[submission] = now
        return now - self._last_answer[submission]


class RayJobs:
    """Requests to the dashboards of Ray heads. Use as an async context manager."""

    def __init__(self, dashboard_port: int = DASHBOARD_PORT) -> None:
        self._port = dashboard_port

    async def __aenter__(self) -> RayJobs:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def driver(self, head: RayHead, submission: str) -> DriverState:
        """State of `submission` on `head`."""
        try:
            async with self._session.get(self._url(head, submission), headers=_ray_headers(head)) as reply:
                if reply.status == 404:
                    return DriverState("absent")
                if reply.status != 200:
                    return DriverState("unreachable", f"Ray answers {reply.status}: {(await reply.text())[:300]}")
                info: Json = await reply.json()
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError) as error:
            return DriverState("unreachable", f"Ray's dashboard at {self._url(head)} does not answer: {error!r}")
        phase = _PHASES.get(str(info.get("status")), "pending")
        message = str(info.get("message") or "")
        if phase == "failed":
            message = _failure_message(message, await self._logs(head, submission))
        return DriverState(phase, message, info.get("driver_exit_code"))

    async def ready_engines(self, head: RayHead) -> int:
        """How many engines the router on `head` uses; 0 also when it does not answer."""
        url, headers = f"http://{url_host(head.address)}:{ROUTER_PORT}/workers", _bearer(head.credentials.engine_key)
        try:
            async with self._session.get(url, headers=headers) as reply:
                workers = (await reply.json())["workers"]
        except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError, KeyError):
            return 0
        return sum(bool(worker.get("is_healthy", worker.get("status") == "ready")) for worker in workers)

    async def submit(self, head: RayHead, driver: Submission) -> bool:
        """Start `driver`; False when Ray did not accept it (retry)."""
        body = {"entrypoint": driver.entrypoint, "submission_id": driver.id, "metadata": dict(driver.metadata)}
        try:
            async with self._session.post(self._url(head), json=body, headers=_ray_headers(head)) as reply:
                text = await reply.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            logger.warning("submission %s not answered: %r", driver.id, error)
            return False
        accepted = reply.status == 200 or "already exists" in text
        if not accepted:
            logger.warning("submission %s refused: %d %s", driver.id, reply.status, text[:500])
        return accepted

    async def _logs(self, head: RayHead, submission: str) -> str:
        url = self._url(head, submission) + "/logs"
        try:
            async with self._session.get(url, headers=_ray_headers(head)) as reply:
                return str((await reply.json()).get("logs") or "")
        except (TimeoutError, aiohttp.ClientError, json.JSONDecodeError):
            return ""

    def _url(self, head: RayHead, submission: str = "") -> str:
        return f"http://{url_host(head.address)}:{self._port}/api/jobs/{submission}"


def _ray_headers(head: RayHead) -> dict[str, str]:
    return _bearer(head.credentials.ray_token)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _failure_message(message: str, logs: str) -> str:
    """The driver's own last error, or, if it was killed, Ray's `message` and the end of the log."""
    lines = logs.strip().splitlines()
    errors = [line.removeprefix(ERROR_PREFIX).strip() for line in lines if line.startswith(ERROR_PREFIX)]
    tail = "\n".join(lines[-LOG_TAIL_LINES:])[-LOG_TAIL_CHARACTERS:]
    return errors[-1] if errors else "; ".join(filter(None, [message, tail]))
