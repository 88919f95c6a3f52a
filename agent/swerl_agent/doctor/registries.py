"""Registries: whether they have the images given, and how many more pulls they allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import aiohttp

from swerl_agent.registry import (
    Availability,
    RegistryClient,
    RegistryCredentials,
    RegistryLimits,
    check_images,
)

from .finding import Finding

FEW_PULLS = 100


async def registries(
    images: Sequence[str], credentials: Mapping[str, RegistryCredentials], limits: RegistryLimits
) -> list[Finding]:
    """Asked from this machine, not from the nodes."""
    async with aiohttp.ClientSession() as http:
        client = RegistryClient(http, credentials, limits)
        found = await check_images(client, images, concurrency=4, report=lambda _: None)
        return [*map(_image, found), *allowances(client.remaining)]


def _image(found: Availability) -> Finding:
    match found.state:
        case "present":
            return Finding("registry", "ok", f"{found.image} is there")
        case "undecided":
            remedy = "none, if only the nodes reach that registry; else check its name, --plain-http and proxies"
            return Finding("registry", "warning", f"{found.image}: {found.detail}", remedy)
    remedy = "check the reference and the login; push the image, or copy it to your registry (registryRewrite)"
    return Finding("registry", "failed", f"{found.image}: {found.detail}", remedy)


def allowances(remaining: Mapping[str, int]) -> Iterator[Finding]:
    """`remaining`: pulls that each registry still allows in its period."""
    for registry, pulls in remaining.items():
        text = f"{registry} allows {pulls} more pulls in its period"
        if pulls < FEW_PULLS:
            remedy = "use a login (pullSecrets), your own registry (registryRewrite), or a lower pullsPerMinute"
            yield Finding("registry", "warning", text, remedy)
        else:
            yield Finding("registry", "ok", text)
