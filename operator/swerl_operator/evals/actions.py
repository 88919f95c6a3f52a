"""What a decision asks for, done: every action may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from swerl_api import API_VERSION

from ..jobs import raycluster
from ..jobs.cleanup import delete_leftovers
from ..jobs.diagnosis import head_address
from ..jobs.objects import account, binding
from ..jobs.ray_jobs import RayJobs
from ..kube import Kube
from . import manifests
from .evaluation import Evaluation
from .state import Action


class EvalActions:
    """Makes and deletes what belongs to evaluations."""

    def __init__(self, api: Kube, ray: RayJobs, cluster_role: str) -> None:
        self._api = api
        self._ray = ray
        self._cluster_role = cluster_role  # of the processes, in their namespace

    async def perform(self, evaluation: Evaluation, actions: Sequence[Action], failures: int) -> None:
        """Do them in their order; `failures` is how often the engines were lost before."""
        acts: dict[Action, Callable[[Evaluation], Awaitable[None]]] = {
            Action.DELETE_EVERYTHING: self._delete_everything,
            Action.DELETE_SHARDS: self._delete_shards,
            Action.DELETE_ENGINES: self._delete_engines,
            Action.DELETE_PREFLIGHT: self._delete_preflight,
            Action.ENSURE_ACCOUNT: self._ensure_account,
            Action.CREATE_PREFLIGHT: self._create_preflight,
            Action.CREATE_ENGINES: self._create_engines,
            Action.CREATE_SHARDS: self._create_shards,
            Action.CREATE_MERGE: self._create_merge,
            Action.DELETE_EVALUATION: self._delete_evaluation,
        }
        for action in actions:
            if action is Action.SUBMIT:
                await self._submit(evaluation, failures)
            else:
                await acts[action](evaluation)

    async def _delete_everything(self, evaluation: Evaluation) -> None:
        await delete_leftovers(self._api, evaluation.namespace, evaluation.selector)

    async def _delete_shards(self, evaluation: Evaluation) -> None:
        await self._api.delete("batch/v1", "jobs", evaluation.namespace, evaluation.shards_name)

    async def _delete_engines(self, evaluation: Evaluation) -> None:
        await self._api.delete(raycluster.API, "rayclusters", evaluation.namespace, evaluation.cluster_name)

    async def _delete_preflight(self, evaluation: Evaluation) -> None:
        await self._api.delete("v1", "pods", evaluation.namespace, evaluation.preflight_name, grace=0)

    async def _ensure_account(self, evaluation: Evaluation) -> None:
        metadata = evaluation.metadata(evaluation.account)
        await self._api.ensure("serviceaccounts", account(metadata))
        await self._api.ensure("rolebindings", binding(metadata, self._cluster_role))
        file = manifests.config_map(evaluation)
        await self._api.ensure("configmaps", file)
        await self._api.patch("v1", "configmaps", evaluation.namespace, evaluation.config_name, {"data": file["data"]})

    async def _create_preflight(self, evaluation: Evaluation) -> None:
        await self._api.ensure("pods", manifests.preflight_pod(evaluation))

    async def _create_engines(self, evaluation: Evaluation) -> None:
        await self._api.ensure("rayclusters", raycluster.ray_cluster(manifests.engines_plan(evaluation)))

    async def _submit(self, evaluation: Evaluation, failures: int) -> None:
        selector = f"{evaluation.selector},ray.io/cluster={evaluation.cluster_name}"
        address = head_address(await self._api.list("v1", "pods", evaluation.namespace, labels=selector))
        if address:
            await self._ray.submit(address, manifests.serving(evaluation, failures))

    async def _create_shards(self, evaluation: Evaluation) -> None:
        await self._api.ensure("jobs", manifests.shards_job(evaluation))

    async def _create_merge(self, evaluation: Evaluation) -> None:
        await self._api.ensure("jobs", manifests.merge_job(evaluation))

    async def _delete_evaluation(self, evaluation: Evaluation) -> None:
        await self._api.delete(API_VERSION, "sweevals", evaluation.namespace, evaluation.name, uid=evaluation.uid)
