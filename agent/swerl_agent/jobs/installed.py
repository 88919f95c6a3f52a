"""The release of swe-rl that a cluster has installed, as a source of the trainer image's reference."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from swerl_kube import Json, KubeClient

from swerl_agent import RELEASE

CHART_LABEL = "app.kubernetes.io/name=swe-rl"
OF_A_RELEASE = re.compile(r"(?:(?P<registry>.+)/)?swe-rl/(?:operator|trainer)(?::(?P<tag>[\w.-]+))?(?:@.+)?")


@dataclass(frozen=True)
class InstalledRelease:
    """Where the images of a release are."""

    registry: str = ""  # host and path before `swe-rl/`; empty: Docker Hub
    tag: str = RELEASE

    def trainer(self, gpus: int) -> str:
        """The trainer image for jobs with GPUs, or without."""
        name = f"swe-rl/trainer{'-gpu' if gpus else ''}:{self.tag}"
        return f"{self.registry.rstrip('/')}/{name}" if self.registry else name


async def installed_release(client: KubeClient) -> InstalledRelease | None:
    """From the Deployments of the chart; None where there are none, or where their images have other names."""
    return release_of(await client.list("apps/v1", "deployments", None, labels=CHART_LABEL))


def release_of(deployments: Iterable[Json]) -> InstalledRelease | None:
    """The release of the first image among these Deployments that has the name of a released one."""
    for deployment in deployments:
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            if found := OF_A_RELEASE.fullmatch(container["image"]):
                return InstalledRelease(found["registry"] or "", found["tag"] or RELEASE)
    return None
