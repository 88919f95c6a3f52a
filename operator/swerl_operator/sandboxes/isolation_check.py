"""The isolation check of a group: a probe in one of its Pods, before the group becomes Ready.

Guarantees: a group whose egress is none or internet becomes Ready only after the probe in one of its ready Pods reached
none of: the API server by service and node address, the cluster's name servers, the metadata address, this operator's
own port, and the node over IPv6 link-local. While the probe reaches something, the check is repeated. Nothing else
waits for it: a client that claims a Pod checks that Pod itself.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from swerl_api import isolation
from swerl_api.base import Egress
from swerl_api.isolation import ProbeTarget
from swerl_kube import KubeError, NotFound, pause_after

from ..metrics import Metrics
from ..workqueue import ObjectKey, WorkQueue
from .api import SandboxApi
from .parsed import ParsedGroup, ParsedPod, PodStage
from .reconciler import SandboxReconciler
from .settings import SandboxSettings
from .store import GroupRecord, IsolationCheck

logger = logging.getLogger(__name__)

WORKERS = 16  # groups checked at once; a probe waits up to a second for addresses that do not answer
MAX_RETRY_SECONDS = 30.0  # between two checks of a group that failed; the delay doubles each time
MAX_DOUBLINGS = 8
ADDRESS_CACHE_SECONDS = 60.0  # for which the API server's addresses are cached
EXIT_PREFIX = "ended "  # starts the last line of the output, followed by the script's exit code
PROBE = f'( {isolation.SCRIPT}\n); echo "{EXIT_PREFIX}$?"'
USE_BASH_IF_PRESENT = 'command -v bash >/dev/null 2>&1 && exec bash -c "$@"; exec sh -c "$@"'
RESOLV_CONF = Path("/etc/resolv.conf")


class IsolationChecker:
    """Checks groups on request; `own_targets`: addresses of this process, which must not be reachable either."""

    def __init__(
        self,
        api: SandboxApi,
        reconciler: SandboxReconciler,
        settings: SandboxSettings,
        metrics: Metrics,
        own_targets: Sequence[ProbeTarget],
    ) -> None:
        self._api = api
        self._min_retry = settings.isolation_retry
        self._reconciler = reconciler
        self._own_targets = own_targets
        self._name_servers = own_name_servers()
        self._permitted = settings.internet_name_servers
        self._addresses: list[ProbeTarget] = []
        self._read_at = float("-inf")
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            "SweSandboxIsolation", self.check, metrics, workers=WORKERS, retry_seconds=settings.reconcile_retry
        )

    async def run(self) -> None:
        """Check until cancelled."""
        await self._queue.run()

    def request(self, record: GroupRecord, pod: ParsedPod) -> None:
        """A Pod of the group changed: check the group if the Pod is ready and no check has passed."""
        if pod.stage is PodStage.READY and (group := _unchecked(record)) is not None:
            self._queue.add(group.key)

    async def check(self, key: ObjectKey) -> float | None:
        """Check the group in one of its Pods; seconds until the next check, None when it passed."""
        record = self._reconciler.store.record(key)
        if record is None or _unchecked(record) is None:
            return None
        pod = next((pod for pod in record.pods.values() if pod.stage is PodStage.READY), None)
        if pod is None:
            return None  # the next Pod that becomes ready requests a check
        pause = min(self._min_retry * 2 ** min(record.isolation_check.count, MAX_DOUBLINGS), MAX_RETRY_SECONDS)
        try:
            failure = await self._check_pod(pod, record.existing_group.spec.egress)
        except NotFound:
            return self._min_retry  # the Pod was deleted meanwhile
        except KubeError as error:
            failure, pause = f"{isolation.UNCHECKED}: {error}", pause_after(error, pause)
            logger.warning("SweSandbox %s/%s: %s", *key, failure)
        outcome = "passed" if not failure else "failed" if failure.startswith(isolation.UNCHECKED) else "reachable"
        self._reconciler.metrics.isolation_checks.labels(outcome=outcome).inc()
        record.isolation_check = IsolationCheck(not failure, failure, record.isolation_check.count + 1)
        self._reconciler.queue.add(key)
        return pause if failure else None

    async def _check_pod(self, pod: ParsedPod, egress: Egress) -> str:
        """Why this Pod does not count as isolated, '' if it does."""
        permitted = self._permitted if egress == "internet" else ()
        arguments = isolation.probe_arguments(
            [*self._own_targets, *await self._api_addresses()],
            [server for server in self._name_servers if server not in permitted],
            egress=egress,
        )
        output = await self._api.exec_output(
            pod, ["sh", "-c", USE_BASH_IF_PRESENT, "swerl", PROBE, "swerl", *arguments]
        )
        answers, _, code = output.rpartition(EXIT_PREFIX)
        if not code.strip().isdigit():
            end = output[-200:].strip()
            return f"{isolation.UNCHECKED}: the probe in {pod.name} did not finish: {end}"
        return isolation.probe_failure(int(code), "") or isolation.reachability_problem(answers, egress)

    async def _api_addresses(self) -> list[ProbeTarget]:
        if time.monotonic() - self._read_at > ADDRESS_CACHE_SECONDS:
            self._addresses = await self._api.api_addresses()
            self._read_at = time.monotonic()
        return self._addresses


def own_name_servers(resolv_conf: Path = RESOLV_CONF) -> list[str]:
    """The cluster's name servers, as configured in this Pod; none outside of a cluster."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return []
    lines = [line.split() for line in resolv_conf.read_text().splitlines()]
    return [fields[1] for fields in lines if fields[:1] == ["nameserver"] and len(fields) > 1]


def _unchecked(record: GroupRecord) -> ParsedGroup | None:
    """The group, unless it passed a check, needs none, or an earlier operator process found it Ready."""
    group = record.group
    if group is None or record.isolation_problem is None or group.status.get("phase") == "Ready":
        return None
    return group
