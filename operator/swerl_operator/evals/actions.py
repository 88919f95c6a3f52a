"""Performs the actions of a decision about an evaluation; every action may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from swerl_api import API_VERSION
from swerl_api.names import ROLE_SHARD
from swerl_kube import KubeClient

from ..context import Settings
from ..owned import delete_owned_pod, ensure_owned
from ..ray.accounts import role_binding, service_account
from ..ray.cleanup import delete_leftovers
from ..ray.cluster import RAY_API, ray_cluster
from ..ray.credentials import CredentialSource
from ..ray.jobs import RayHead, RayJobs
from ..ray.network_policy import ray_policy
from ..ray.pods import head_address
from . import manifests
from .decide import EvalAction
from .evaluation import ServedEvaluation


class EvalActions:
    """Creates and deletes what belongs to evaluations."""

    def __init__(self, api: KubeClient, ray: RayJobs, credentials: CredentialSource, settings: Settings) -> None:
        self._api = api
        self._ray = ray
        self._credentials = credentials
        self._settings = settings

    async def perform(self, evaluation: ServedEvaluation, actions: Sequence[EvalAction], failures: int) -> None:
        """Perform `actions` in their order; `failures`: how often the engines were lost before."""
        methods: dict[EvalAction, Callable[[ServedEvaluation], Awaitable[None]]] = {
            EvalAction.DELETE_EVERYTHING: self._delete_everything,
            EvalAction.DELETE_SHARDS: self._delete_shards,
            EvalAction.DELETE_ENGINES: self._delete_engines,
            EvalAction.DELETE_PREFLIGHT: self._delete_preflight,
            EvalAction.ENSURE_ACCOUNT: self._ensure_account,
            EvalAction.CREATE_PREFLIGHT: self._create_preflight,
            EvalAction.CREATE_ENGINES: self._create_engines,
            EvalAction.CREATE_SHARDS: self._create_shards,
            EvalAction.CREATE_MERGE: self._create_merge,
            EvalAction.DELETE_EVALUATION: self._delete_evaluation,
        }
        for action in actions:
            if action is EvalAction.SUBMIT:
                await self._submit(evaluation, failures)
            else:
                await methods[action](evaluation)

    async def _delete_everything(self, evaluation: ServedEvaluation) -> None:
        await delete_leftovers(self._api, evaluation.namespace, evaluation.selector)

    async def _delete_shards(self, evaluation: ServedEvaluation) -> None:
        await self._api.delete("batch/v1", "jobs", evaluation.namespace, evaluation.shards_name)

    async def _delete_engines(self, evaluation: ServedEvaluation) -> None:
        await self._api.delete(RAY_API, "rayclusters", evaluation.namespace, evaluation.cluster_name)

    async def _delete_preflight(self, evaluation: ServedEvaluation) -> None:
        await delete_owned_pod(self._api, evaluation.namespace, evaluation.preflight_name, evaluation.uid)

    async def _ensure_account(self, evaluation: ServedEvaluation) -> None:
        metadata, settings = evaluation.metadata(evaluation.account), self._settings
        await ensure_owned(self._api, "serviceaccounts", service_account(metadata))
        await ensure_owned(self._api, "rolebindings", role_binding(metadata, settings.driver_cluster_role))
        await ensure_owned(self._api, "configmaps", manifests.config_map(evaluation), "data")
        policy = ray_policy(
            evaluation.metadata(evaluation.policy),
            evaluation.labels(),
            operator_namespace=settings.lease_namespace,
            metrics_peers=settings.metrics_peers,
            router_clients=evaluation.labels(ROLE_SHARD),
        )
        await ensure_owned(self._api, "networkpolicies", policy, "spec")

    async def _create_preflight(self, evaluation: ServedEvaluation) -> None:
        await ensure_owned(self._api, "pods", manifests.evaluation_preflight(evaluation))

    async def _create_engines(self, evaluation: ServedEvaluation) -> None:
        plan = replace(manifests.engines_plan(evaluation), secret=await self._create_secret(evaluation))
        await ensure_owned(self._api, "rayclusters", ray_cluster(plan))

    async def _create_secret(self, evaluation: ServedEvaluation) -> str:
        metadata = evaluation.metadata(evaluation.policy)
        return await self._credentials.create_secret(metadata, evaluation.uid)

    async def _submit(self, evaluation: ServedEvaluation, failures: int) -> None:
        selector = f"{evaluation.selector},ray.io/cluster={evaluation.cluster_name}"
        address = head_address(await self._api.list("v1", "pods", evaluation.namespace, labels=selector))
        if address:
            head = RayHead(address, await self._credentials.of(evaluation.uid))
            await self._ray.submit(head, manifests.serving_submission(evaluation, failures))

    async def _create_shards(self, evaluation: ServedEvaluation) -> None:
        secret = await self._create_secret(evaluation) if evaluation.starts_engines else None
        await ensure_owned(self._api, "jobs", manifests.shards_job(evaluation, secret))

    async def _create_merge(self, evaluation: ServedEvaluation) -> None:
        await ensure_owned(self._api, "jobs", manifests.merge_job(evaluation))

    async def _delete_evaluation(self, evaluation: ServedEvaluation) -> None:
        await self._api.delete(API_VERSION, "sweevals", evaluation.namespace, evaluation.name, uid=evaluation.uid)
