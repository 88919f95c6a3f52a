"""What must exist before an evaluation may start.

Guarantee: only reads; it reports every missing thing at once, each with the command or field that fixes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError
from swerl_api import API_VERSION, EvalReason, SweEvalSpec, SweRLJobSpec
from swerl_api.sweeval import TrainedModel
from swerl_api.volumes import OutputVolume
from swerl_kube import Json, KubeClient

from ..checks.pod_templates import template_problems, template_references
from ..checks.prerequisites import (
    Reference,
    host_path_problems,
    missing_kuberay,
    missing_objects,
    source_references,
    volume_references,
)
from ..context import Settings
from ..problem import Problem
from ..ray.cluster import RayClusterPlan
from ..status_builder import invalid_spec_message
from .evaluation import ServedEvaluation, ServedModel, checkpoint_path, served_model, trained_model
from .manifests import engines_plan


async def find_model(
    api: KubeClient, namespace: str, spec: SweEvalSpec, checkpoint: str | None
) -> ServedModel | Problem:
    """The model of the evaluation, of checkpoint `chosen` if there is one; or why there is none."""
    if spec.model.job is None:
        served = served_model(spec)
        assert served is not None, "the API server admits no SweEval without a model"
        return served
    body = await api.find(API_VERSION, "swerljobs", namespace, spec.model.job.name)
    return _trained_model(namespace, spec.model.job, body, checkpoint)


async def missing_prerequisites(api: KubeClient, evaluation: ServedEvaluation, settings: Settings) -> list[Problem]:
    """Problems that keep the evaluation from starting, besides a missing model."""
    problems = await missing_kuberay(api) if evaluation.starts_engines else []
    problems += host_path_problems(settings.host_path_volumes, _volumes(evaluation))
    references, role = _references(evaluation), settings.driver_cluster_role
    problems += await missing_objects(api, evaluation.namespace, references, evaluation.spec.sandbox, role)
    if plan := _plan(evaluation):
        problems += await template_problems(api, plan, settings.host_path_volumes)
    return problems


def _plan(evaluation: ServedEvaluation) -> RayClusterPlan | None:
    """The engines' Ray cluster, if the evaluation has one and its model is known."""
    return engines_plan(evaluation) if evaluation.starts_engines and evaluation.served is not None else None


def _trained_model(
    namespace: str, trained: TrainedModel, body: Json | None, checkpoint: str | None
) -> ServedModel | Problem:
    if body is None:
        text = f"SweRLJob {trained.name!r} named by spec.model.job does not exist in namespace {namespace!r}"
        return Problem(EvalReason.JOB_MISSING, f"{text}; `kubectl get swerl -n {namespace}` lists those that do")
    newest = (body.get("status") or {}).get("lastCheckpoint")
    if checkpoint is None and trained.step is not None:
        checkpoint = checkpoint_path(trained.name, trained.step)
    if checkpoint is None and newest is None:
        text = (
            f"SweRLJob {trained.name!r} has no complete checkpoint yet; "
            "wait for its first (spec.checkpoint.every steps)"
        )
        return Problem(EvalReason.NO_CHECKPOINT, text)
    try:
        return trained_model(SweRLJobSpec.from_stored(body["spec"]), checkpoint or str(newest))
    except ValidationError as error:
        return Problem(
            EvalReason.INVALID_SPEC, f"SweRLJob {trained.name!r} cannot be read: {invalid_spec_message(error)}"
        )


def _volumes(evaluation: ServedEvaluation) -> Iterator[tuple[str, OutputVolume]]:
    """Output volumes, each with the field that names it."""
    if evaluation.served is not None and evaluation.served.volume is not None:
        yield "model.job (its checkpoint.volume)", evaluation.served.volume
    yield "output.volume", evaluation.spec.output.volume


def engine_references(evaluation: ServedEvaluation) -> Iterator[Reference]:
    """Namespaced objects of the model and of the output volumes, which all Ray Pods of the engines mount."""
    spec, served = evaluation.spec, evaluation.served
    if served is not None:
        field = "model.endpoint.tokenizer" if spec.model.endpoint else "model.source" if spec.model.source else "model"
        if served.source is not None:
            yield from source_references(field, served.source)
    for field, volume in _volumes(evaluation):
        yield from volume_references(field, volume)


def _references(evaluation: ServedEvaluation) -> Iterator[Reference]:
    """Namespaced objects the spec names."""
    spec = evaluation.spec
    yield from engine_references(evaluation)
    if plan := _plan(evaluation):
        yield from template_references(plan)
    yield from source_references("tasks.source", spec.tasks.source)
    if spec.agent.prompt_templates is not None:
        yield "configmaps", spec.agent.prompt_templates.config_map.name, "agent.promptTemplates"
