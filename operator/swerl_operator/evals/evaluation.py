"""One SweEval with its model, and the names of the objects created for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from swerl_api import EvaluationFile, SourceSpec, SweEvalSpec, SweRLJobSpec, names
from swerl_api.volumes import OutputVolume
from swerl_kube import Json

from ..manifest import owner_reference
from ..owned import has_owner


@dataclass(frozen=True)
class ServedModel:
    """The model behind the engine's address."""

    source: SourceSpec | None  # of the tokenizer's folder and, when engines are started, of the model's
    tokenizer: str | None  # path in the Pods; None (as the source is) for an endpoint with a chat API
    dtype: Literal["float32", "bfloat16"]
    volume: OutputVolume | None = None  # with the checkpoint
    checkpoint: str | None = None  # its path in the Pods of its SweRLJob


@dataclass(frozen=True)
class ServedEvaluation:
    """The SweEval `name`; `served` is None as long as its SweRLJob or the checkpoint is missing."""

    namespace: str
    name: str
    uid: str
    spec: SweEvalSpec
    served: ServedModel | None

    @property
    def starts_engines(self) -> bool:
        """Whether the model needs engines of its own."""
        return self.spec.model.endpoint is None

    @property
    def config_name(self) -> str:
        """Name of its ConfigMap."""
        return names.evaluation_scope(self.name)

    @property
    def account(self) -> str:
        """ServiceAccount of its processes."""
        return names.evaluation_account(self.name)

    @property
    def cluster_name(self) -> str:
        """Name of the engines' RayCluster."""
        return names.engines_name(self.name)

    @property
    def policy(self) -> str:
        """NetworkPolicy of the engines' Pods."""
        return self.cluster_name

    @property
    def preflight_name(self) -> str:
        """Name of the preflight Pod."""
        return f"{self.name}-preflight"

    @property
    def shards_name(self) -> str:
        """Name of the Indexed Job."""
        return f"{self.name}-shards"

    @property
    def merge_name(self) -> str:
        """Name of the Job that merges the shards' results."""
        return f"{self.name}-merge"

    @property
    def selector(self) -> str:
        """Selects everything created for it."""
        return f"{names.EVALUATION_LABEL}={self.name}"

    @property
    def engine_url(self) -> str:
        """Address of the server or router, as the shards reach it; KubeRay creates the Service of the head."""
        if self.spec.model.endpoint is not None:
            return self.spec.model.endpoint.url
        return f"http://{self.cluster_name}-head-svc.{self.namespace}.svc:{names.ROUTER_PORT}"

    def labels(self, role: str | None = None) -> dict[str, str]:
        """Labels of what is created for it."""
        return {names.EVALUATION_LABEL: self.name} | ({names.ROLE_LABEL: role} if role else {})

    def metadata(self, name: str, role: str | None = None) -> Json:
        """Metadata of an object that lives no longer than the SweEval."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(role),
            "ownerReferences": [owner_reference("SweEval", self.name, self.uid)],
        }

    @property
    def checkpoint(self) -> str | None:
        """Path of the evaluated checkpoint in the Pods of its SweRLJob."""
        return self.served.checkpoint if self.served else None

    def owns(self, body: Json) -> bool:
        """Whether `body` was created for this object and not for another one of the same name."""
        return has_owner(body, self.uid)

    def is_of_earlier(self, body: Json) -> bool:
        """Whether `body` was created for another object of this name, which was deleted since."""
        owners = body["metadata"].get("ownerReferences") or ()
        return any(
            (owner["kind"], owner["name"]) == ("SweEval", self.name) and owner["uid"] != self.uid for owner in owners
        )

    def file(self) -> EvaluationFile:
        """The input of its processes."""
        assert self.served is not None, "nothing starts before the model is known"
        return EvaluationFile(
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            engine=self.engine_url,
            tokenizer=self.served.tokenizer,
            dtype=self.served.dtype,
            checkpoint=self._local_path(self.served.checkpoint),
            spec=self.spec,
        )

    def _local_path(self, checkpoint: str | None) -> str | None:
        """The checkpoint's path in our Pods."""
        if checkpoint is None:
            return None
        return str(PurePosixPath(names.CHECKPOINTS_PATH) / PurePosixPath(checkpoint).relative_to(names.OUTPUT_PATH))


def served_model(spec: SweEvalSpec) -> ServedModel | None:
    """The model of an evaluation that names no SweRLJob."""
    model = spec.model
    if model.job is not None:
        return None
    source = model.endpoint.tokenizer if model.endpoint else model.source
    return ServedModel(source, names.MODEL_PATH if source else None, model.dtype)


def trained_model(job: SweRLJobSpec, checkpoint: str) -> ServedModel:
    """The model of a SweRLJob's checkpoint; `checkpoint` is its path in that job's Pods."""
    tokenizer = job.model.tokenizer or names.MODEL_PATH
    return ServedModel(job.model.source, tokenizer, job.model.dtype, job.checkpoint.volume, checkpoint)


def checkpoint_path(job: str, step: int) -> str:
    """Path of a SweRLJob's checkpoint in that job's Pods."""
    return f"{names.OUTPUT_PATH}/{names.checkpoint_folder(job, step)}"
