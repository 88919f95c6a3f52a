"""The API of SWE-RL: typed SweRLJob, SweSandbox, SweImageSet and SweEval, their names and conditions.

Guarantee: these models are the single source of the CRDs; `python -m swerl_api` writes the manifests from them.
"""

from .base import API_VERSION, GROUP, VERSION, Resources, Toleration
from .compute import Checkpoint, RayPods, Rollout, Router, ServedRollout, Trainer
from .conditions import (
    Condition,
    EvalCondition,
    EvalReason,
    ImageSetCondition,
    ImageSetReason,
    JobCondition,
    JobReason,
    SandboxCondition,
    SandboxReason,
    find_condition,
    holds,
    set_condition,
)
from .learning import Algorithm, HeldOut, Model, Tasks, TaskSelection
from .rollouts import (
    Agent,
    AgentKind,
    ContextPolicy,
    Grading,
    Judge,
    JudgeView,
    Observation,
    RegistryRewrite,
    Sandbox,
)
from .source import Source
from .sweeval import EvalPhase, EvalProgress, EvaluationFile, SweEvalSpec, SweEvalStatus
from .sweimageset import SweImageSetSpec, SweImageSetStatus
from .swerljob import (
    GradingCounts,
    HeldOutRates,
    JobPhase,
    Progress,
    SandboxCounts,
    SweRLJobSpec,
    SweRLJobStatus,
)
from .swesandbox import SandboxPhase, SweSandboxSpec, SweSandboxStatus

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "Agent",
    "AgentKind",
    "Algorithm",
    "Checkpoint",
    "Condition",
    "ContextPolicy",
    "EvalCondition",
    "EvalPhase",
    "EvalProgress",
    "EvalReason",
    "EvaluationFile",
    "Grading",
    "GradingCounts",
    "HeldOut",
    "HeldOutRates",
    "ImageSetCondition",
    "ImageSetReason",
    "JobCondition",
    "JobPhase",
    "JobReason",
    "Judge",
    "JudgeView",
    "Model",
    "Observation",
    "Progress",
    "RayPods",
    "RegistryRewrite",
    "Resources",
    "Rollout",
    "Router",
    "Sandbox",
    "SandboxCondition",
    "SandboxCounts",
    "SandboxPhase",
    "SandboxReason",
    "ServedRollout",
    "Source",
    "SweEvalSpec",
    "SweEvalStatus",
    "SweImageSetSpec",
    "SweImageSetStatus",
    "SweRLJobSpec",
    "SweRLJobStatus",
    "SweSandboxSpec",
    "SweSandboxStatus",
    "TaskSelection",
    "Tasks",
    "Toleration",
    "Trainer",
    "find_condition",
    "holds",
    "set_condition",
]
