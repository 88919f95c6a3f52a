"""The NetworkPolicy that isolates every Pod labelled `swerl.dev/egress: none`, in every namespace in use.

Guarantees: `DenyAll.ensure` returns only when the policy was seen as written here within the recheck time; `keep` puts
right what somebody loosened or removed, and leaves a namespace that has had no such Pod for a while without a trace.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from swerl_api import names

from ..errors import ApiError, Conflict
from ..kube import Kube
from .settings import SandboxSettings

NETWORKING = "networking.k8s.io/v1"
POLICIES = "networkpolicies"
POLICY_NAME = "swerl-deny-all"
OURS = {"app.kubernetes.io/part-of": "swe-rl", "app.kubernetes.io/managed-by": "swe-rl-operator"}


def deny_all(namespace: str) -> dict[str, Any]:
    """Manifest: no traffic in either direction for Pods with egress none."""
    return {
        "apiVersion": NETWORKING,
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY_NAME, "namespace": namespace, "labels": OURS},
        "spec": {
            "podSelector": {"matchLabels": {names.EGRESS_LABEL: "none"}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


class DenyAll:
    """Keeps the policy in place while it is needed."""

    def __init__(self, api: Kube, settings: SandboxSettings) -> None:
        self._api = api
        self._recheck = settings.policy_recheck
        self._seen: dict[str, float] = {}
        self._used: dict[str, float] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, namespace: str) -> None:
        """Put the policy in place; raises ApiError if that is impossible."""
        async with self._turns[namespace]:
            if time.monotonic() - self._seen.get(namespace, float("-inf")) < self._recheck:
                return
            await self._ensure(namespace)
            self._seen[namespace] = self._used[namespace] = time.monotonic()

    async def keep(self, namespace: str | None, in_use: Callable[[], Collection[str]], idle: float) -> None:
        """Have the policy in `namespace` (None: in all) where `in_use` tells of a group, as it should be.

        Remove it where that has not been so for `idle` seconds. Raises ApiError.
        """
        labels = ",".join(f"{name}={value}" for name, value in OURS.items())
        found = await self._api.list(NETWORKING, POLICIES, namespace, labels=labels)
        specs = {policy["metadata"]["namespace"]: policy.get("spec") or {} for policy in found}
        errors: list[ApiError] = []  # a namespace that is going must not keep the others from their policies
        for place in specs.keys() | {place for place in in_use() if namespace in (None, place)}:
            try:
                async with self._turns[place]:
                    await self._keep_one(place, specs.get(place), place in in_use(), idle)
            except ApiError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _keep_one(self, namespace: str, spec: dict[str, Any] | None, used: bool, idle: float) -> None:
        now = time.monotonic()
        if used:
            self._used[namespace] = now
            if spec is None or not _same(spec, deny_all(namespace)["spec"]):
                await self._ensure(namespace)
        elif now - self._used.setdefault(namespace, now) >= idle:
            await self._api.delete(NETWORKING, POLICIES, namespace, POLICY_NAME)
            self._seen.pop(namespace, None)
            del self._used[namespace]

    async def _ensure(self, namespace: str) -> None:
        wanted = deny_all(namespace)
        found = await self._api.find(NETWORKING, POLICIES, namespace, POLICY_NAME)
        if found is None:
            await self._create(wanted)
        elif not _same(found.get("spec") or {}, wanted["spec"]):
            # Explicit nulls: a merge patch only removes what it names.
            selector = wanted["spec"]["podSelector"] | {"matchExpressions": None}
            spec = wanted["spec"] | {"podSelector": selector, "ingress": None, "egress": None}
            await self._api.patch(NETWORKING, POLICIES, namespace, POLICY_NAME, {"spec": spec})

    async def _create(self, wanted: dict[str, Any]) -> None:
        # A conflict means that somebody was first with the same name; the next look compares it.
        with contextlib.suppress(Conflict):
            await self._api.create(POLICIES, wanted)


def _same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    filled = {name: value for name, value in found.items() if value}
    return filled.get("podSelector") == wanted["podSelector"] and (
        sorted(filled.get("policyTypes") or ()) == sorted(wanted["policyTypes"])
        and not filled.get("ingress")
        and not filled.get("egress")
    )
