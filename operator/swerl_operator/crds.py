"""`python -m swerl_operator.crds`: write this version's CRDs to the cluster, before a new operator starts.

Objects that are stored stay as they are. Every CRD is written whole, so that a second run changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from swerl_api.crd import KINDS, crd
from swerl_kube import Conflict, Json, KubeClient, KubeError, retry_write

CRDS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


async def write_crds(client: KubeClient) -> list[str]:
    """Create or change the CRD of every kind, through an outage of the API server; their names. Raises ApiError."""
    written = []
    for kind in KINDS:
        manifest = crd(kind)
        await retry_write(partial(_write, client, manifest))
        written.append(str(manifest["metadata"]["name"]))
    return written


async def _write(client: KubeClient, manifest: Json) -> None:
    metadata = manifest["metadata"]
    try:
        await client.create(CRDS[1], manifest)
    except Conflict:
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        await client.patch(*CRDS, None, metadata["name"], {"metadata": kept, "spec": manifest["spec"]})


async def main() -> int:
    """Write the CRDs of the surrounding cluster; the exit code."""
    try:
        async with KubeClient.from_environment() as client:
            names = await write_crds(client)
    except KubeError as error:
        print(f"swerl-operator: the CRDs were not written: {error}", file=sys.stderr)
        return 1
    print(f"wrote {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
