"""Write a file into a ConfigMap of the Pod's namespace: `publish.py FILE CONFIGMAP`."""

import asyncio
import sys
from pathlib import Path

from swerl_kube import Conflict, KubeClient

LABELS = {"swerl.dev/job": "swerl-tasks-check"}  # without it, this account may not write the ConfigMap


async def publish(file: Path, name: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": LABELS},
        "data": {file.name: file.read_text()},
    }
    async with KubeClient.from_environment() as client:
        try:
            await client.create("configmaps", body, namespace=client.namespace)
        except Conflict:
            await client.patch("v1", "configmaps", client.namespace, name, {"data": body["data"]})


if __name__ == "__main__":
    asyncio.run(publish(Path(sys.argv[1]), sys.argv[2]))
