"""A program that grades a patch for longer than any test waits: a namespace and a pickled task on stdin."""

from __future__ import annotations

import asyncio
import pickle
import sys

from swerl_agent.grading import Grader
from swerl_agent.sandbox.lease import owning_lease
from swerl_kube import KubeClient

from .conftest import settings


async def main() -> None:
    namespace, task = pickle.load(sys.stdin.buffer)
    async with (
        KubeClient.from_environment() as client,
        owning_lease(namespace, "sleeper") as lease,
        Grader(client, namespace, settings(timeout_seconds=600), lease=lease) as grader,
    ):
        await grader.grade(task, task.ground_truth.patch)


if __name__ == "__main__":
    asyncio.run(main())
