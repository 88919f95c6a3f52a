"""`swerl images`: images that registries or nodes lack, by name."""

from __future__ import annotations

import click
from swerl_api import API_VERSION, SweImageSetSpec, SweImageSetStatus
from swerl_api.sweimageset import list_hash
from swerl_kube import KubeClient, NotFound

from .command import Group, Options, runs
from .options import cluster_options, open_client
from .output import output_option, print_result

command = Group(
    "images",
    help="List task images that registries or nodes lack.",
    members={
        "check": (
            ".images_check:check_registries",
            "print every image that its registry lacks, one a line, without pulling",
        )
    },
)


@command.command("missing", help="print every image of a SweImageSet that some node lacks, one a line")
@click.argument("name")
@click.option("--nodes", is_flag=True, help="print the nodes that lack each image")
@output_option
@cluster_options
@runs
async def print_missing(options: Options) -> int:
    """0 when nothing is missing, 1 when something is."""
    async with open_client(options) as client:
        images, status = await _observed(client, options.namespace or client.namespace, options.name)
    lacking = {node.name: set(images) - set(node.pulled_images(images)) for node in status.per_node}
    places = [(image, [node for node, those in lacking.items() if image in those]) for image in images]
    missing = [(image, nodes) for image, nodes in places if nodes]
    lines = (f"{image} {' '.join(nodes)}" if options.nodes else image for image, nodes in missing)
    print_result(options, [{"image": image, "nodes": nodes} for image, nodes in missing], lines)
    return 1 if missing else 0


async def _observed(client: KubeClient, namespace: str, name: str) -> tuple[list[str], SweImageSetStatus]:
    """The set's images and what the operator found of them; raises UsageError while that is not known."""
    try:
        body = await client.get(API_VERSION, "sweimagesets", namespace, name)
        spec = SweImageSetSpec.from_stored(body["spec"])
        status = SweImageSetStatus.model_validate(body.get("status") or {})
        images = spec.references(await _listed(client, namespace, spec))
    except NotFound as error:
        raise click.UsageError(f"SweImageSet {namespace}/{name}: {error}") from error
    if status.list_hash != list_hash(images):
        raise click.UsageError(
            f"the operator has not processed the current list of SweImageSet {namespace}/{name} yet: see `kubectl -n "
            f"{namespace} describe sweimg {name}`, and retry in a minute"
        )
    if not status.per_node:
        raise click.UsageError(f"SweImageSet {namespace}/{name} selects no ready node")
    return images, status


async def _listed(client: KubeClient, namespace: str, spec: SweImageSetSpec) -> str:
    source = spec.images_from
    if source is None:
        return ""
    config_map = await client.get("v1", "configmaps", namespace, source.config_map)
    return str((config_map.get("data") or {}).get(source.key, ""))
