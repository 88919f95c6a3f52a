"""`sandboxes.json` in the job's folder: its sandboxes by node and state, for readers without rights on the cluster.

Guarantees: written whole, at most once in SECONDS, in a thread; at most MOST_NODES nodes by name, the others as one
sum; removed at the end of the attempt. A file that cannot be written is logged and never stops training.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from typing import Any, Protocol

from swerl_agent.sandbox.by_node import MOST_NODES, NodeCounts
from swerl_agent.storage import WriteFailed, write_atomic
from swerl_api.names import SANDBOXES_FILE
from swerl_trainer.job import Job

logger = logging.getLogger(__name__)

SECONDS = 5.0  # between two writes


class Runner(Protocol):
    """Knows the job's sandboxes."""

    async def sandboxes_by_node(self) -> NodeCounts: ...


async def report_sandboxes(job: Job, runner: Runner, every: float = SECONDS) -> None:
    """Write the file every so many seconds until cancelled; then remove it."""
    file = SandboxFile(job)
    try:
        while True:
            await asyncio.to_thread(file.write, await runner.sandboxes_by_node())
            await asyncio.sleep(every)
    finally:
        await asyncio.to_thread(file.remove)


class SandboxFile:
    """The file of one attempt."""

    def __init__(self, job: Job) -> None:
        self._path = job.folder / SANDBOXES_FILE
        self._lock = threading.Lock()  # a cancelled task's write may still run when the file is removed
        self._removed = False
        self._failing = False

    def write(self, counts: NodeCounts) -> None:
        """Replace the file; no-op once it was removed."""
        content = json.dumps({"time": round(time.time(), 3), **bounded(counts)})
        with self._lock:
            if self._removed:
                return
            try:
                write_atomic({self._path: [content.encode()]}, durable=False)
                self._failing = False
            except WriteFailed as error:
                if not self._failing:
                    logger.warning("the console does not show the sandboxes: %s", error)
                self._failing = True

    def remove(self) -> None:
        """Remove the file for good."""
        with self._lock:
            self._removed = True
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", self._path, error)


def bounded(counts: NodeCounts) -> dict[str, Any]:
    """The file's counts: `by_node` has the nodes with most sandboxes, `on_other_nodes` the sum of the `other_nodes`."""
    nodes = sorted(filter(None, counts), key=lambda node: (-sum(counts[node].values()), node))
    others: Counter[str] = Counter()
    for node in nodes[MOST_NODES:]:
        others.update(counts[node])
    return {
        "by_node": {node: counts[node] for node in sorted(nodes[:MOST_NODES])},
        "without_node": counts.get("", {}),
        "other_nodes": len(nodes[MOST_NODES:]),
        "on_other_nodes": others,
    }
