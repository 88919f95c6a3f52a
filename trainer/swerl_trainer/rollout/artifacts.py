"""The artifacts of a rollout, below the folder of its training step or evaluation."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path

from swerl_agent.audit import AuditFinding
from swerl_agent.episode import Episode, write_artifacts
from swerl_agent.grading import Verdict
from swerl_agent.judge import StepScore
from swerl_trainer.rollout.dependencies import WorkerDependencies
from swerl_trainer.rollout.group import GroupRequest, Rollout

logger = logging.getLogger(__name__)


def artifacts_folder(dependencies: WorkerDependencies, request: GroupRequest) -> Path:
    """Where the episodes of a group leave their artifacts."""
    purpose = "step" if request.purpose == "train" else "evaluation"
    return dependencies.artifacts / f"{purpose}-{request.step:04d}"


def write_rollout(
    dependencies: WorkerDependencies,
    request: GroupRequest,
    episode: Episode,
    verdict: Verdict | None = None,
    rollout: Rollout | None = None,
    scores: Mapping[int, StepScore] | None = None,
    audit: Collection[AuditFinding] | None = None,
) -> None:
    """Write the artifacts of an episode, and trace its rollout; a failure is logged and does not end the rollout."""
    meta = {
        **({"model": dependencies.model} if dependencies.model else {}),
        "step": request.step,
        "reward": rollout.reward if rollout else 0.0,
        "valid": rollout is not None and rollout.valid,
        "temperature": request.temperature,
        "sampling_params": {"temperature": request.temperature, **dependencies.sampling},
        "step_scores": [asdict(score) for score in (scores or {}).values()],
    }
    try:
        write_artifacts(artifacts_folder(dependencies, request), episode, verdict, meta=meta, audit=audit)
    except OSError as error:
        logger.error("cannot write the artifacts of %s/%d: %s", request.id, episode.index, error)
    if dependencies.tracer is not None and rollout is not None:
        dependencies.tracer.trace(request, episode, rollout)
