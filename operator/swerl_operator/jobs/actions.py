"""Performs the actions of a decision about a job; every action may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from swerl_api import API_VERSION
from swerl_kube import KubeClient

from ..context import Settings
from ..owned import delete_owned_pod, ensure_owned
from ..ray.accounts import role_binding, service_account
from ..ray.cleanup import delete_leftovers
from ..ray.cluster import ray_cluster
from ..ray.credentials import CredentialSource
from ..ray.jobs import RayHead, RayJobs
from ..ray.network_policy import ray_policy
from ..ray.pods import head_address
from .attempt import Attempt, attempts_selector
from .decide import JobAction
from .manifests import attempt_preflight, cluster_plan, job_file, submission


class JobActions:
    """Creates and deletes what belongs to jobs."""

    def __init__(self, api: KubeClient, ray: RayJobs, credentials: CredentialSource, settings: Settings) -> None:
        self._api = api
        self._ray = ray
        self._credentials = credentials
        self._settings = settings

    async def perform(self, attempt: Attempt, actions: Sequence[JobAction]) -> None:
        """Perform `actions` in their order."""
        methods: dict[JobAction, Callable[[Attempt], Awaitable[None]]] = {
            JobAction.DELETE_EVERYTHING: self._delete_everything,
            JobAction.DELETE_OTHERS: self._delete_others,
            JobAction.DELETE_PREFLIGHT: self._delete_preflight,
            JobAction.ENSURE_ACCOUNT: self._ensure_account,
            JobAction.CREATE_PREFLIGHT: self._create_preflight,
            JobAction.CREATE_CLUSTER: self._create_cluster,
            JobAction.SUBMIT: self._submit,
            JobAction.DELETE_JOB: self._delete_job,
        }
        for action in actions:
            await methods[action](attempt)

    async def _delete_everything(self, attempt: Attempt) -> None:
        await delete_leftovers(self._api, attempt.namespace, attempts_selector(attempt.job))

    async def _delete_others(self, attempt: Attempt) -> None:
        selector = attempts_selector(attempt.job, without=attempt.number)
        await delete_leftovers(self._api, attempt.namespace, selector)

    async def _delete_preflight(self, attempt: Attempt) -> None:
        await delete_owned_pod(self._api, attempt.namespace, attempt.preflight_name, attempt.uid)

    async def _ensure_account(self, attempt: Attempt) -> None:
        metadata, settings = attempt.shared_metadata(attempt.account), self._settings
        await ensure_owned(self._api, "serviceaccounts", service_account(metadata))
        await ensure_owned(self._api, "rolebindings", role_binding(metadata, settings.driver_cluster_role))
        await ensure_owned(self._api, "configmaps", job_file(attempt), "data")
        policy = ray_policy(
            attempt.shared_metadata(attempt.policy),
            attempt.shared_labels,
            operator_namespace=settings.lease_namespace,
            metrics_peers=settings.metrics_peers,
        )
        await ensure_owned(self._api, "networkpolicies", policy, "spec")

    async def _create_preflight(self, attempt: Attempt) -> None:
        await ensure_owned(self._api, "pods", attempt_preflight(attempt))

    async def _create_cluster(self, attempt: Attempt) -> None:
        plan = replace(cluster_plan(attempt), secret=await self._create_secret(attempt))
        await ensure_owned(self._api, "rayclusters", ray_cluster(plan))

    async def _create_secret(self, attempt: Attempt) -> str:
        metadata = attempt.shared_metadata(attempt.policy)
        return await self._credentials.create_secret(metadata, attempt.uid)

    async def _submit(self, attempt: Attempt) -> None:
        pods = await self._api.list("v1", "pods", attempt.namespace, labels=attempt.ray_pods_selector)
        if address := head_address(pods):
            head = RayHead(address, await self._credentials.of(attempt.uid))
            await self._ray.submit(head, submission(attempt))

    async def _delete_job(self, attempt: Attempt) -> None:
        await self._api.delete(API_VERSION, "swerljobs", attempt.namespace, attempt.job, uid=attempt.uid)
