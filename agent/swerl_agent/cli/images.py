"""`swerl images`: images that registries or nodes lack, by name."""

from __future__ import annotations

import argparse

from swerl_api import API_VERSION, SweImageSetSpec, SweImageSetStatus
from swerl_api.sweimageset import list_hash
from swerl_kube import KubeClient, NotFound

from . import images_check
from .options import add_cluster_options, open_client


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`check` and `missing`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    images_check.add_parser(verbs)
    missing = verbs.add_parser("missing", help="print every image of a SweImageSet that some node lacks, one a line")
    missing.add_argument("name", help="the SweImageSet")
    missing.add_argument("--nodes", action="store_true", help="print each with every node that lacks it")
    add_cluster_options(missing)
    missing.set_defaults(run=print_missing)


async def print_missing(options: argparse.Namespace) -> int:
    """0 when nothing is missing, 1 when something is."""
    async with open_client(options) as client:
        images, status = await _observed(client, options.namespace or client.namespace, options.name)
    lacking = {node.name: set(images) - set(node.pulled_images(images)) for node in status.per_node}
    places = [(image, [node for node, those in lacking.items() if image in those]) for image in images]
    for image, nodes in places:
        if nodes:
            print(f"{image} {' '.join(nodes)}" if options.nodes else image)
    return 1 if any(nodes for _, nodes in places) else 0


async def _observed(client: KubeClient, namespace: str, name: str) -> tuple[list[str], SweImageSetStatus]:
    """The set's images and what the operator found of them; raises ArgumentTypeError while that is not known."""
    try:
        body = await client.get(API_VERSION, "sweimagesets", namespace, name)
        spec = SweImageSetSpec.model_validate(body["spec"])
        status = SweImageSetStatus.model_validate(body.get("status") or {})
        images = spec.references(await _listed(client, namespace, spec))
    except NotFound as error:
        raise argparse.ArgumentTypeError(f"SweImageSet {namespace}/{name}: {error}") from error
    if status.list_hash != list_hash(images):
        raise argparse.ArgumentTypeError(
            f"the operator has not processed the current list of SweImageSet {namespace}/{name} yet: see `kubectl -n "
            f"{namespace} describe sweimg {name}`, and retry in a minute"
        )
    if not status.per_node:
        raise argparse.ArgumentTypeError(f"SweImageSet {namespace}/{name} selects no ready node")
    return images, status


async def _listed(client: KubeClient, namespace: str, spec: SweImageSetSpec) -> str:
    source = spec.images_from
    if source is None:
        return ""
    config_map = await client.get("v1", "configmaps", namespace, source.config_map)
    return str((config_map.get("data") or {}).get(source.key, ""))
