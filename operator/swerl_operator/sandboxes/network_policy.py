"""The NetworkPolicy that isolates every Pod labelled `swerl.dev/egress: none`, in every namespace in use.

Guarantees: `DenyAllPolicy.ensure` returns only when the policy was read as written here within the recheck time;
`reconcile` restores a changed or deleted policy, and deletes the policy of a namespace without such Pods for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

from swerl_api import names
from swerl_kube import ApiError, Conflict, KubeClient

from .settings import SandboxSettings

NETWORKING = "networking.k8s.io/v1"
POLICIES = "networkpolicies"
POLICY_NAME = "swerl-deny-all"
MANAGED_LABELS = {"app.kubernetes.io/part-of": "swe-rl", "app.kubernetes.io/managed-by": "swe-rl-operator"}


def deny_all(namespace: str) -> dict[str, Any]:
    """Manifest: no traffic in either direction for Pods with egress none."""
    return {
        "apiVersion": NETWORKING,
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY_NAME, "namespace": namespace, "labels": MANAGED_LABELS},
        "spec": {
            "podSelector": {"matchLabels": {names.EGRESS_LABEL: "none"}},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


class DenyAllPolicy:
    """Keeps the policy in place while a namespace needs it."""

    def __init__(self, api: KubeClient, settings: SandboxSettings) -> None:
        self._api = api
        self._recheck = settings.policy_recheck
        self._verified_at: dict[str, float] = {}
        self._used_at: dict[str, float] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ensure(self, namespace: str) -> None:
        """Create or restore the policy; raises ApiError if that is impossible."""
        async with self._locks[namespace]:
            if time.monotonic() - self._verified_at.get(namespace, float("-inf")) < self._recheck:
                return
            await self._ensure(namespace)
            self._verified_at[namespace] = self._used_at[namespace] = time.monotonic()

    async def reconcile(self, namespace: str | None, in_use: Callable[[], Collection[str]], idle: float) -> None:
        """Create or restore the policy in `namespace` (None: in all) where a namespace is `in_use`.

        Delete it where the namespace has not been in use for `idle` seconds. Raises ApiError.
        """
        labels = ",".join(f"{label}={value}" for label, value in MANAGED_LABELS.items())
        found = await self._api.list(NETWORKING, POLICIES, namespace, labels=labels)
        specs = {policy["metadata"]["namespace"]: policy.get("spec") or {} for policy in found}
        errors: list[ApiError] = []  # a terminating namespace must not keep the others from their policies
        for name in specs.keys() | {name for name in in_use() if namespace in (None, name)}:
            try:
                async with self._locks[name]:
                    await self._reconcile_namespace(name, specs.get(name), name in in_use(), idle)
            except ApiError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _reconcile_namespace(
        self, namespace: str, spec: dict[str, Any] | None, in_use: bool, idle: float
    ) -> None:
        now = time.monotonic()
        if in_use:
            self._used_at[namespace] = now
            if spec is None or not _is_as_desired(spec, deny_all(namespace)["spec"]):
                await self._ensure(namespace)
        elif now - self._used_at.setdefault(namespace, now) >= idle:
            await self._api.delete(NETWORKING, POLICIES, namespace, POLICY_NAME)
            self._verified_at.pop(namespace, None)
            del self._used_at[namespace]

    async def _ensure(self, namespace: str) -> None:
        desired = deny_all(namespace)
        found = await self._api.find(NETWORKING, POLICIES, namespace, POLICY_NAME)
        if found is None:
            await self._create(desired)
        elif not _is_as_desired(found.get("spec") or {}, desired["spec"]):
            # Explicit nulls: a merge patch only removes what it names.
            selector = desired["spec"]["podSelector"] | {"matchExpressions": None}
            spec = desired["spec"] | {"podSelector": selector, "ingress": None, "egress": None}
            await self._api.patch(NETWORKING, POLICIES, namespace, POLICY_NAME, {"spec": spec})

    async def _create(self, desired: dict[str, Any]) -> None:
        # A conflict means that a policy of the same name exists; the next reconciliation compares it.
        with contextlib.suppress(Conflict):
            await self._api.create(POLICIES, desired)


def _is_as_desired(found: dict[str, Any], desired: dict[str, Any]) -> bool:
    present = {name: value for name, value in found.items() if value}
    return present.get("podSelector") == desired["podSelector"] and (
        sorted(present.get("policyTypes") or ()) == sorted(desired["policyTypes"])
        and not present.get("ingress")
        and not present.get("egress")
    )
