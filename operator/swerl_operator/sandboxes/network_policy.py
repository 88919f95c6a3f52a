"""The NetworkPolicies of sandbox Pods, one for each restricted egress, in every namespace in use.

Pods labelled `swerl.dev/egress: none` have no traffic; those labelled `internet` open connections to public addresses.

Guarantees: `SandboxPolicies.ensure` returns only when the policy was read as written here within the recheck time;
`reconcile` restores a changed or deleted policy, and deletes one that its namespace has not needed for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from swerl_api import names
from swerl_api.base import Egress
from swerl_kube import ApiError, Conflict, Json, KubeClient

from .cluster_networks import ClusterNetworks
from .public_addresses import internet_rules
from .settings import SandboxSettings

NETWORKING = "networking.k8s.io/v1"
POLICIES = "networkpolicies"
POLICY_NAMES: dict[Egress, str] = {"none": "swerl-deny-all", "internet": "swerl-internet-only"}
MANAGED_LABELS = {"app.kubernetes.io/part-of": "swe-rl", "app.kubernetes.io/managed-by": "swe-rl-operator"}

PolicyKey = tuple[str, Egress]  # namespace, egress of the Pods


def sandbox_policy(namespace: str, egress: Egress, rules: list[Json]) -> dict[str, Any]:
    """Manifest: no traffic for Pods with this egress, in either direction, but what the egress `rules` allow."""
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {names.EGRESS_LABEL: egress}},
        "policyTypes": ["Ingress", "Egress"],
    }
    return {
        "apiVersion": NETWORKING,
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY_NAMES[egress], "namespace": namespace, "labels": MANAGED_LABELS},
        "spec": spec | ({"egress": rules} if rules else {}),
    }


class SandboxPolicies:
    """Keeps the policies in place while a namespace needs them."""

    def __init__(self, api: KubeClient, settings: SandboxSettings) -> None:
        self._api = api
        self._networks = ClusterNetworks(api, settings)
        self._name_servers = settings.internet_name_servers
        self._recheck = settings.policy_recheck
        self._verified_at: dict[PolicyKey, float] = {}
        self._used_at: dict[PolicyKey, float] = {}
        self._locks: defaultdict[PolicyKey, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, namespace: str, egress: Egress) -> None:
        """Create or restore the policy of Pods with this egress; raises ApiError if that is impossible."""
        key = namespace, egress
        async with self._locks[key]:
            if time.monotonic() - self._verified_at.get(key, float("-inf")) < self._recheck:
                return
            await self._ensure(await self._desired(key))
            self._verified_at[key] = self._used_at[key] = time.monotonic()

    async def reconcile(self, namespace: str | None, in_use: Callable[[], Collection[PolicyKey]], idle: float) -> None:
        """Create or restore the policies in `namespace` (None: in all) that are `in_use`.

        Delete those that have not been in use for `idle` seconds. Raises ApiError.
        """
        specs = await self._found(namespace)
        errors: list[ApiError] = []  # a terminating namespace must not keep the others from their policies
        for key in specs.keys() | {key for key in in_use() if namespace in (None, key[0])}:
            try:
                async with self._locks[key]:
                    await self._reconcile(key, specs.get(key), key in in_use(), idle)
            except ApiError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _found(self, namespace: str | None) -> dict[PolicyKey, dict[str, Any]]:
        labels = ",".join(f"{label}={value}" for label, value in MANAGED_LABELS.items())
        egresses = {name: egress for egress, name in POLICY_NAMES.items()}
        return {
            (policy["metadata"]["namespace"], egresses[policy["metadata"]["name"]]): policy.get("spec") or {}
            for policy in await self._api.list(NETWORKING, POLICIES, namespace, labels=labels)
            if policy["metadata"]["name"] in egresses
        }

    async def _reconcile(self, key: PolicyKey, spec: dict[str, Any] | None, in_use: bool, idle: float) -> None:
        now = time.monotonic()
        if in_use:
            self._used_at[key] = now
            desired = await self._desired(key)
            if spec is None or not _is_as_desired(spec, desired["spec"]):
                await self._ensure(desired)
        elif now - self._used_at.setdefault(key, now) >= idle:
            await self._api.delete(NETWORKING, POLICIES, key[0], POLICY_NAMES[key[1]])
            self._verified_at.pop(key, None)
            del self._used_at[key]

    async def _desired(self, key: PolicyKey) -> dict[str, Any]:
        """The manifest, for the cluster's networks as they are now."""
        rules = []
        if key[1] == "internet":
            rules = internet_rules(await self._networks.read(), self._name_servers)
        return sandbox_policy(*key, rules)

    async def _ensure(self, desired: dict[str, Any]) -> None:
        name, namespace = desired["metadata"]["name"], desired["metadata"]["namespace"]
        found = await self._api.find(NETWORKING, POLICIES, namespace, name)
        if found is None:
            await self._create(desired)
        elif not _is_as_desired(found.get("spec") or {}, desired["spec"]):
            # Explicit nulls: a merge patch only removes what it names.
            selector = desired["spec"]["podSelector"] | {"matchExpressions": None}
            spec = {"ingress": None, "egress": None} | desired["spec"] | {"podSelector": selector}
            await self._api.patch(NETWORKING, POLICIES, namespace, name, {"spec": spec})

    async def _create(self, desired: dict[str, Any]) -> None:
        # A conflict means that a policy of the same name exists; the next reconciliation compares it.
        with contextlib.suppress(Conflict):
            await self._api.create(POLICIES, desired)


def _is_as_desired(found: dict[str, Any], desired: dict[str, Any]) -> bool:
    present = {name: value for name, value in found.items() if value}
    return present.get("podSelector") == desired["podSelector"] and (
        sorted(present.get("policyTypes") or ()) == sorted(desired["policyTypes"])
        and not present.get("ingress")
        and present.get("egress", []) == desired.get("egress", [])
    )
