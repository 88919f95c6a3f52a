"""The CustomResourceDefinitions, made from the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .base import GROUP, VERSION, ApiModel, Rule
from .schema import Schema, structural_schema
from .sweeval import MAX_EVAL_NAME, SweEvalSpec, SweEvalStatus
from .sweimageset import MAX_IMAGE_SET_NAME, SweImageSetSpec, SweImageSetStatus
from .swerljob import MAX_JOB_NAME, SweRLJobSpec, SweRLJobStatus
from .swesandbox import MAX_SANDBOX_NAME, SweSandboxSpec, SweSandboxStatus


@dataclass(frozen=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    json_path: str
    type: str = "string"
    description: str = ""
    priority: int = 0  # above 0: only with -o wide


@dataclass(frozen=True)
class Kind:
    """What a CRD needs besides its schemas."""

    kind: str
    plural: str
    short_name: str
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[Column, ...]
    max_name: int


AGE = Column("Age", ".metadata.creationTimestamp", "date", "Time since creation.")

SWERLJOB = Kind(
    kind="SweRLJob",
    plural="swerljobs",
    short_name="swerl",
    description="One reinforcement-learning run of a software-engineering agent.",
    spec=SweRLJobSpec,
    status=SweRLJobStatus,
    columns=(
        Column("Phase", ".status.phase", description="Phase of the job."),
        Column("Step", ".status.progress", description="Training steps done, of all."),
        Column("Reward", ".status.rewardMean", "number", "Mean reward of the last step."),
        Column("Resolved", ".status.resolvedRate", "number", "Share of resolved episodes in the last step."),
        Column("Sandboxes", ".status.sandboxes.summary", description="Sandboxes pending/ready."),
        Column("ETA", ".status.eta", description="Time until the last step."),
        Column("Reason", ".status.reason", description="Why it is Blocked."),
        AGE,
        Column("Tokens/s", ".status.tokensPerSecond", "number", "Trained tokens a second, last step.", priority=1),
        Column("Grading", ".status.grading.pending", "integer", "Patches that wait for a verdict.", priority=1),
        Column("Attempt", ".status.attempt", "integer", "Number of the attempt.", priority=1),
        Column("RayCluster", ".status.rayCluster", description="RayCluster of the attempt.", priority=1),
    ),
    max_name=MAX_JOB_NAME,
)

SWESANDBOX = Kind(
    kind="SweSandbox",
    plural="swesandboxes",
    short_name="swesb",
    description="The Pods for the rollouts of one prompt: all are created, or none.",
    spec=SweSandboxSpec,
    status=SweSandboxStatus,
    columns=(
        Column("Task", ".spec.taskId", description="The task the group works on."),
        Column("Ready", ".status.ready", "integer", "Pods ready for commands."),
        Column("Phase", ".status.phase", description="Phase of the group."),
        Column("Job", r".metadata.labels.swerl\.dev/job", description="The SweRLJob it serves."),
        AGE,
        Column("Replicas", ".spec.replicas", "integer", "Pods of the group.", priority=1),
        Column("Running", ".status.running", "integer", "Pods running.", priority=1),
        Column("Failed", ".status.failed", "integer", "Pods lost.", priority=1),
    ),
    max_name=MAX_SANDBOX_NAME,
)

SWEIMAGESET = Kind(
    kind="SweImageSet",
    plural="sweimagesets",
    short_name="sweimg",
    description="Task images pulled to the nodes before they are needed.",
    spec=SweImageSetSpec,
    status=SweImageSetStatus,
    columns=(
        Column("Images", ".status.images", "integer", "Different images of the set."),
        Column("Nodes", ".status.nodes", "integer", "Nodes that need them."),
        Column("Missing", ".status.missing", "integer", "Images missing, summed over the nodes."),
        Column("Failed", ".status.failed", "integer", "Pulls that failed and are retried slowly."),
        Column("Phase", ".status.phase", description="Phase of the set."),
        AGE,
        Column("Present", ".status.present", "integer", "Images present, summed over the nodes.", priority=1),
    ),
    max_name=MAX_IMAGE_SET_NAME,
)

SWEEVAL = Kind(
    kind="SweEval",
    plural="sweevals",
    short_name="sweeval",
    description="How many tasks a model solves.",
    spec=SweEvalSpec,
    status=SweEvalStatus,
    columns=(
        Column("Phase", ".status.phase", description="Phase of the evaluation."),
        Column("Done", ".status.progress", description="Samples with a result, of all."),
        Column("Resolved", ".status.resolved", "integer", "Samples whose patch passed."),
        Column("Rate", ".status.rate", "number", "Share of resolved samples among those with a result."),
        Column("Errors", ".status.errors", "integer", "Samples that infrastructure ended."),
        Column("Reason", ".status.reason", description="Why it is Blocked."),
        AGE,
        Column("Shards", ".status.shardsDone", "integer", "Shards that succeeded.", priority=1),
    ),
    max_name=MAX_EVAL_NAME,
)

KINDS = (SWERLJOB, SWESANDBOX, SWEIMAGESET, SWEEVAL)


def crd(kind: Kind) -> dict[str, Any]:
    """CustomResourceDefinition v1 of `kind`."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [kind.short_name],
                "categories": ["swe-rl"],
            },
            "versions": [_version(kind)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root_schema(kind)},
    }


def _root_schema(kind: Kind) -> Schema:
    name_rule = Rule(
        f"self.metadata.name.size() <= {kind.max_name} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        f"metadata.name must be a DNS label of at most {kind.max_name} characters that starts with a letter",
    )
    return {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(kind.spec),
            "status": structural_schema(kind.status),
        },
        "x-kubernetes-validations": [{"rule": name_rule.expression, "message": name_rule.message}],
    }


def _column(column: Column) -> dict[str, Any]:
    rendered: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        rendered["description"] = column.description
    if column.priority:
        rendered["priority"] = column.priority
    return rendered
