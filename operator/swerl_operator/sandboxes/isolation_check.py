"""Isolation of a group, tried out from inside one of its Pods before the group is called Ready.

Guarantees: a group without a network is Ready only after one of its Pods, once ready, was asked and reached none of:
the API server by service and node address, the cluster's name servers, the metadata address, this operator's own port,
and the node over IPv6 link-local. A Pod that reaches something is asked again for as long as its group lives. Nothing
else waits for it: whoever claims a Pod asks that very Pod itself.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from swerl_api import isolation
from swerl_api.isolation import Target

from ..errors import NotFound, OperatorError, pause_after
from ..metrics import Metrics
from ..workqueue import WorkQueue
from .api import Cluster
from .parsed import Group, Key, Pod, PodState
from .reconciler import Controller
from .store import Proof, Record

logger = logging.getLogger(__name__)

WORKERS = 16  # groups asked at once; each waits a second for what does not answer
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds until a Pod that reached something is asked again, doubled each time
MOST_DOUBLINGS = 8
ADDRESSES_SECONDS = 60.0  # for which the API server's addresses are taken as known
ENDED = "ended "  # begins the last line, which tells the script's exit code
TEXT = f'( {isolation.SCRIPT}\n); echo "{ENDED}$?"'
IN_BEST_SHELL = 'command -v bash >/dev/null 2>&1 && exec bash -c "$@"; exec sh -c "$@"'
RESOLV_CONF = Path("/etc/resolv.conf")


class Proofs:
    """Asks as long as it runs; `own`: where this process listens, which must be out of reach, too."""

    def __init__(self, cluster: Cluster, controller: Controller, metrics: Metrics, own: Sequence[Target]) -> None:
        self._cluster = cluster
        self._controller = controller
        self._own = own
        self._name_servers = own_name_servers()
        self._addresses: list[Target] = []
        self._read_at = float("-inf")
        self._queue: WorkQueue[Key] = WorkQueue("SweSandboxIsolation", self.prove, metrics, workers=WORKERS)

    async def run(self) -> None:
        """Ask until cancelled."""
        await self._queue.run()

    def wish(self, record: Record, pod: Pod) -> None:
        """Something is new of a Pod of this group."""
        if pod.state is PodState.READY and (group := _unproven(record)) is not None:
            self._queue.add(group.key)

    async def prove(self, key: Key) -> float | None:
        """Ask a Pod of this group; seconds until one is to be asked again."""
        record = self._controller.store.record(key)
        if record is None or _unproven(record) is None:
            return None
        pod = next((pod for pod in record.pods.values() if pod.state is PodState.READY), None)
        if pod is None:
            return None  # the next one that becomes ready is asked
        pause = min(FIRST_PAUSE * 2 ** min(record.proof.tries, MOST_DOUBLINGS), LONGEST_PAUSE)
        try:
            objection = await self._objection(pod)
        except NotFound:
            return FIRST_PAUSE  # it went meanwhile
        except OperatorError as error:
            objection, pause = f"isolation cannot be checked: {error}", pause_after(error, pause)
            logger.warning("SweSandbox %s/%s: %s", *key, objection)
        record.proof = Proof(not objection, objection, record.proof.tries + 1)
        self._controller.queue.add(key)
        return pause if objection else None

    async def _objection(self, pod: Pod) -> str:
        """Why this Pod does not count as isolated, '' if it does."""
        words = isolation.words([*self._own, *await self._api_addresses()], self._name_servers)
        told = await self._cluster.output(pod, ["sh", "-c", IN_BEST_SHELL, "swerl", TEXT, "swerl", *words])
        answers, _, code = told.rpartition(ENDED)
        if not code.strip().isdigit():
            end = told[-200:].strip()
            return f"isolation cannot be checked: the probe in {pod.name} did not come to its end: {end}"
        return isolation.doubt(int(code), "") or isolation.reached(answers)

    async def _api_addresses(self) -> list[Target]:
        if time.monotonic() - self._read_at > ADDRESSES_SECONDS:
            self._addresses = await self._cluster.api_addresses()
            self._read_at = time.monotonic()
        return self._addresses


def own_name_servers() -> list[str]:
    """The cluster's name servers, as this Pod knows them; none outside of a cluster."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return []
    lines = [line.split() for line in RESOLV_CONF.read_text().splitlines()]
    return [words[1] for words in lines if words[:1] == ["nameserver"] and len(words) > 1]


def _unproven(record: Record) -> Group | None:
    """The group, if its isolation is in doubt; one that an earlier operator process called Ready is not."""
    group = record.group
    return group if group is not None and record.doubt is not None and group.status.get("phase") != "Ready" else None
