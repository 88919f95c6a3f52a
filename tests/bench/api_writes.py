"""Writes that the API server answered, by its own count (`apiserver_request_total`), charged to who keeps sandboxes.

Charged: kinds of ours and of the peer's with their status; Pods, Services, volume claims and NetworkPolicies, for
any caller, so also a Pod's deletion by the garbage collector. Not charged: what any Pod costs (binding, Pod status,
node status, tokens), Events, and Leases, those of nodes as those of drivers and operator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from swerl_kube import KubeClient

VERBS = {"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
GROUPS = {"swerl.dev", "agents.x-k8s.io", "extensions.agents.x-k8s.io"}  # charged with all subresources
RESOURCES = {"pods", "services", "persistentvolumeclaims", "networkpolicies"}  # charged without
_LINE = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")

Writes = Counter[tuple[str, str]]  # (verb, resource or resource/subresource) -> requests


async def count(client: KubeClient) -> Writes:
    """Charged writes since the API server started."""
    return counted_writes(await metrics_page(client))


async def metrics_page(client: KubeClient) -> str:
    """The API server's metrics."""
    async with client.http.get(f"{client.server}/metrics", headers=await client.headers()) as answer:
        answer.raise_for_status()
        return await answer.text()


def counted_writes(page: str) -> Writes:
    """The charged writes of a metrics page."""
    found: Writes = Counter()
    for label, value in _requests(page):
        sub = label["subresource"]
        ours = label["group"] in GROUPS or (label["resource"] in RESOURCES and not sub)
        if label["verb"] in VERBS and ours:
            found[label["verb"], label["resource"] + (f"/{sub}" if sub else "")] += value
    return found


def counted_execs(page: str) -> int:
    """The exec streams of a metrics page that have ended."""
    return sum(value for label, value in _requests(page) if label["subresource"] == "exec")


def _requests(page: str) -> Iterator[tuple[dict[str, str], int]]:
    for labels, value in _LINE.findall(page):
        yield dict(re.findall(r'(\w+)="([^"]*)"', labels)), int(float(value))


def writes_between(before: Writes, after: Writes) -> Writes:
    """Writes between two counts; a Pod's second DELETE is its kubelet's, and not charged."""
    found = after - before
    found["DELETE", "pods"] = min(found["DELETE", "pods"], found["POST", "pods"])
    return +found


def table(writes: Writes, sandboxes: int) -> str:
    """One line per kind of write, for each sandbox."""
    return "\n".join(f"  {number / sandboxes:7.3f} {verb} {what}" for (verb, what), number in writes.most_common())
