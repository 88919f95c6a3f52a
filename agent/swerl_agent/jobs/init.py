"""A SweRLJob to start from: its text, with comments, in a layout that the model fits.

Pure. Guarantee: the text is valid for `file_faults`, unless no layout of these GPUs fits the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from swerl_api import API_VERSION, AlgorithmSpec, SweRLJobSpec
from swerl_api.swerljob import MAX_JOB_NAME
from swerl_plan import Machines, known_models, propose, refusal

from .installed import InstalledRelease

ALGORITHM = AlgorithmSpec()
GIB = 2**30
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class JobOutline:
    """The answers from which a job is written."""

    model: str  # Hugging Face id, or CLAIM:PATH
    tasks: str  # CLAIM:PATH, or Hugging Face id
    output: str  # PersistentVolumeClaim
    gpus: int = 8  # of one node; 0: CPU
    nodes: int = 1
    held_out: str | None = None  # as tasks
    name: str | None = None
    namespace: str | None = None
    image: str | None = None
    steps: int = ALGORITHM.steps
    prompts_per_step: int = ALGORITHM.prompts_per_step
    group_size: int = ALGORITHM.group_size
    secret: str | None = None  # Secret with HF_TOKEN
    gpu_memory: int = 80 * GIB  # bytes of one GPU

    @property
    def machines(self) -> Machines:
        """What is known of the nodes."""
        return Machines(gpu_memory=self.gpu_memory if self.gpus else None)


def job_text(outline: JobOutline) -> str:
    """The YAML of the job."""
    metadata = {"name": outline.name or _name(outline.model)}
    if outline.namespace:
        metadata["namespace"] = outline.namespace
    body = {"apiVersion": API_VERSION, "kind": "SweRLJob", "metadata": metadata, "spec": _spec(outline)}
    text = yaml.dump(body, sort_keys=False, default_flow_style=False, width=100)
    return _HEAD + _commented(text)


def _spec(outline: JobOutline) -> dict[str, Any]:
    """The spec, in a layout that fits where one is known."""
    spec = _base_spec(outline)
    parsed = SweRLJobSpec.model_validate(spec)
    models = known_models(parsed)
    if models.policy is None or refusal(parsed, models, outline.machines) is None:
        return spec
    proposal = propose(parsed, models.policy, outline.machines)
    for place, value in (proposal.changes if proposal else {}).items():
        section, _, field = place.rpartition(".")
        spec[section or "trainer"][field] = value
    return spec


def _base_spec(outline: JobOutline) -> dict[str, Any]:
    episodes = outline.prompts_per_step * outline.group_size
    spec: dict[str, Any] = {
        "model": {"source": source(outline.model), "dtype": "bfloat16" if outline.gpus else "float32"},
        "tasks": selection(outline.tasks),
    }
    if outline.held_out:
        spec["evaluation"] = {**selection(outline.held_out), "every": max(1, outline.steps // 5)}
    spec["algorithm"] = {
        "name": "grpo",
        "steps": outline.steps,
        "promptsPerStep": outline.prompts_per_step,
        "groupSize": outline.group_size,
        "lr": 1.0e-6,
    }
    spec["agent"] = {"stepLimit": 30, "contextTokens": 32_768 if outline.gpus else 4096, "maxTokensPerTurn": 2048}
    spec["sandbox"] = {"maxConcurrent": episodes}
    return spec | _machines(outline)


def _machines(outline: JobOutline) -> dict[str, Any]:
    """Half of the GPUs train and half infer; a single GPU, and CPUs, take turns."""
    shared = outline.gpus * outline.nodes < 2
    trainer: dict[str, Any] = {"image": outline.image or InstalledRelease().trainer(outline.gpus)}
    rollout: dict[str, Any] = {"engines": 1, "gpusPerEngine": outline.gpus if shared else 1}
    if shared:
        trainer |= {"gpus": outline.gpus}
    elif outline.nodes == 1:
        trainer |= {"gpus": outline.gpus // 2, "tensorParallel": outline.gpus // 2}
        rollout["engines"] = outline.gpus - outline.gpus // 2
    else:
        trainer |= {
            "replicas": outline.nodes - outline.nodes // 2,
            "gpus": outline.gpus,
            "tensorParallel": outline.gpus,
        }
        rollout["engines"] = outline.nodes // 2 * outline.gpus
    trainer |= {"maxTokensPerGpu": 16_384, "recompute": "full"} if outline.gpus else {"maxTokensPerGpu": 4096}
    if outline.secret:
        trainer["envFromSecrets"] = [outline.secret]
    volume = {"persistentVolumeClaim": {"claimName": outline.output}}
    return {
        "trainer": trainer,
        "rollout": rollout,
        **({"colocate": True} if shared else {}),
        "checkpoint": {"volume": volume, "every": 10, "keepLast": 2},
    }


def source(text: str) -> dict[str, Any]:
    """A source: a Hugging Face id (OWNER/NAME), or a folder of a claim (CLAIM:PATH)."""
    claim, colon, path = text.partition(":")
    if colon:
        return {"persistentVolumeClaim": {"claimName": claim, "path": path.lstrip("/")}}
    if HUB_ID.fullmatch(text):
        return {"huggingFace": {"id": text}}
    return {"persistentVolumeClaim": {"claimName": text}}


def selection(text: str) -> dict[str, Any]:
    """Tasks of a source; those of a claim are JSONL."""
    found = source(text)
    return {"source": found} if "huggingFace" in found else {"source": found, "format": "jsonl"}


def _name(model: str) -> str:
    last = re.split(r"[/:]", model.rstrip("/"))[-1]
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:MAX_JOB_NAME].rstrip("-") or "job"


_HEAD = """\
# Check it with `swerl validate FILE`, start it with `swerl submit FILE`, follow it with `swerl watch NAME`.
# Every field: kubectl explain swerljob.spec --recursive
"""
COMMENTS = {
    "model:": "what is trained: a Hugging Face id, or a folder of a volume",
    "tasks:": "what it is trained on; `swerl tasks check` shows which of them can be graded",
    "evaluation:": "tasks that are never trained on, to measure progress",
    "groupSize:": "episodes per task: their rewards are compared with each other",
    "promptsPerStep:": "tasks per step",
    "lr:": "1e-6 is usual for all weights, 1e-5 for model.lora",
    "stepLimit:": "commands that the agent may run",
    "contextTokens:": "tokens of prompt and answers together",
    "maxConcurrent:": "sandboxes at the same time: one step's episodes, if the nodes have the room",
    "trainer:": "ranks = replicas x gpus; docs/layouts.md has layouts that fit",
    "rollout:": "inference engines, on GPUs of their own unless colocate is set",
    "colocate:": "trainer and engines take turns on the same devices",
    "checkpoint:": "for checkpoints, metrics, logs and episodes; reachable from every Pod of the job",
}


def _commented(text: str) -> str:
    """`text` with a comment behind the first line of each explained field."""
    left, lines = dict(COMMENTS), []
    for line in text.splitlines():
        key = line.strip().partition(" ")[0]
        comment = left.pop(key, None)
        lines.append(f"{line}  # {comment}" if comment else line)
    return "\n".join(lines) + "\n"
