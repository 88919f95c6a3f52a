"""The API of SWE-RL: typed SweRLJob, SweSandbox, SweImageSet and SweEval, their names and conditions.

Guarantee: these models are the single source of the CRDs; `python -m swerl_api` writes the manifests from them.
"""

from .agent import AgentKind, AgentSpec, ContextPolicy, ObservationSpec
from .algorithm import AlgorithmSpec
from .base import API_VERSION, GROUP, VERSION, Resources, Toleration
from .checkpoint import CheckpointSpec, ExportSpec, Resume
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
    is_condition_true,
    set_condition,
)
from .engines import RolloutEngines, RouterSpec, ServedEngines
from .grading import GradingSpec
from .judge import JudgeSpec, JudgeView
from .model import LoraSpec, ModelSpec
from .pod_template import RayPodTemplate
from .pods import RayPods
from .sandbox import RegistryRewrite, SandboxSpec
from .source import SourceSpec
from .sweeval import EvalPhase, EvalProgress, EvaluationFile, SampleSpec, SweEvalSpec, SweEvalStatus
from .sweimageset import SweImageSetSpec, SweImageSetStatus
from .swerljob import (
    GradingCounts,
    HeldOutRates,
    JobPhase,
    JobProgress,
    SandboxCounts,
    SweRLJobSpec,
    SweRLJobStatus,
)
from .swesandbox import SandboxPhase, SweSandboxSpec, SweSandboxStatus
from .tasks import HeldOutSpec, TaskSelection, TasksSpec
from .trainer import TrainerSpec

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "AgentKind",
    "AgentSpec",
    "AlgorithmSpec",
    "CheckpointSpec",
    "Condition",
    "ContextPolicy",
    "EvalCondition",
    "EvalPhase",
    "EvalProgress",
    "EvalReason",
    "EvaluationFile",
    "ExportSpec",
    "GradingCounts",
    "GradingSpec",
    "HeldOutRates",
    "HeldOutSpec",
    "ImageSetCondition",
    "ImageSetReason",
    "JobCondition",
    "JobPhase",
    "JobProgress",
    "JobReason",
    "JudgeSpec",
    "JudgeView",
    "LoraSpec",
    "ModelSpec",
    "ObservationSpec",
    "RayPodTemplate",
    "RayPods",
    "RegistryRewrite",
    "Resources",
    "Resume",
    "RolloutEngines",
    "RouterSpec",
    "SampleSpec",
    "SandboxCondition",
    "SandboxCounts",
    "SandboxPhase",
    "SandboxReason",
    "SandboxSpec",
    "ServedEngines",
    "SourceSpec",
    "SweEvalSpec",
    "SweEvalStatus",
    "SweImageSetSpec",
    "SweImageSetStatus",
    "SweRLJobSpec",
    "SweRLJobStatus",
    "SweSandboxSpec",
    "SweSandboxStatus",
    "TaskSelection",
    "TasksSpec",
    "Toleration",
    "TrainerSpec",
    "find_condition",
    "is_condition_true",
    "set_condition",
]
