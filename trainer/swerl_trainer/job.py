"""The description of one attempt of a SweRLJob, and the folders that it uses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError
from swerl_api import LoraSpec, SweRLJobSpec, names
from swerl_api.swesandbox import MAX_SANDBOX_NAME
from swerl_kube.logs import LogSettings

NAME_LENGTH = 20  # characters of the job's name in a sandbox's name; longer names end in a hash


class JobError(RuntimeError):
    """The job requests something that is not possible; another attempt would fail the same way."""


@dataclass(frozen=True)
class Paths:
    """The folders of the Ray Pods."""

    model: Path = Path(names.MODEL_PATH)
    tasks: Path = Path(names.TASKS_PATH)
    evaluation: Path = Path(names.EVALUATION_PATH)
    output: Path = Path(names.OUTPUT_PATH)
    prompts: Path = Path(names.PROMPTS_PATH)
    judge: Path = Path(names.JUDGE_PATH)

    def of(self, spec: SweRLJobSpec) -> Paths:
        """The paths with downloaded models on the output volume, which all Ray Pods mount."""
        sources = {"model": spec.model.source, "judge": spec.judge.model if spec.judge else None}
        hubs = {name: source.hugging_face for name, source in sources.items() if source and source.hugging_face}
        folders = {name: self.output / names.model_folder(hub.id, hub.revision) for name, hub in hubs.items()}
        return replace(self, **folders)


@dataclass(frozen=True)
class Job:
    """One attempt of one SweRLJob."""

    name: str
    namespace: str
    uid: str
    attempt: int
    lease: str
    spec: SweRLJobSpec
    paths: Paths = Paths()

    @classmethod
    def read(cls, path: Path, paths: Paths | None = None) -> Job:
        """The job at `path`. Raises JobError naming the file and the field."""
        try:
            data = json.loads(path.read_text())
            spec = SweRLJobSpec.from_stored(data["spec"])
            return cls(
                name=data["name"],
                namespace=data["namespace"],
                uid=data["uid"],
                attempt=int(data["attempt"]),
                lease=data["lease"],
                spec=spec,
                paths=(paths or Paths()).of(spec),
            )
        except (OSError, ValueError, KeyError, ValidationError) as error:
            raise JobError(f"{path} is not a job description: {error!r}") from error

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object of this attempt."""
        return {names.JOB_LABEL: self.name, names.ATTEMPT_LABEL: str(self.attempt)}

    @property
    def log(self) -> LogSettings:
        """How its processes log."""
        ids = {"namespace": self.namespace, "job": self.name, "attempt": self.attempt}
        return LogSettings(self.spec.log_format, ids)

    @property
    def selector(self) -> str:
        """Label selector of every object of this attempt."""
        return ",".join(f"{key}={value}" for key, value in self.labels.items())

    @property
    def folder(self) -> Path:
        """The output of all attempts of the job; see `driver.ownership`."""
        return self.paths.output / names.job_folder(self.name)

    @property
    def model(self) -> str:
        """What artifacts call the model: its Hugging Face id, else the name of its folder."""
        source = self.spec.model.source
        if source.hugging_face is not None:
            return source.hugging_face.id
        volume, image = source.persistent_volume_claim, source.image
        folders = [image.path] if image else [volume.path, volume.claim_name] if volume else []
        return next(filter(None, (Path(folder).name for folder in folders)), "")

    @property
    def engine_adapter(self) -> LoraSpec | None:
        """The adapter that engines load; None when they get whole weights."""
        lora = self.spec.model.lora
        return lora if lora is not None and lora.update == "adapter" else None

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the job, of all attempts."""
        return self.paths.output / names.checkpoints_folder(self.name)

    @property
    def exports(self) -> Path:
        """Weights of the job in Hugging Face format, of all attempts."""
        return self.folder / names.EXPORTS_FOLDER

    @property
    def logs(self) -> Path:
        """Logs of this attempt's servers."""
        return self.folder / "logs" / str(self.attempt)

    def sandbox_name(self, group: str) -> str:
        """Name of the SweSandbox of a group or of its retry, unique in the namespace."""
        stem = self.name
        if len(stem) > NAME_LENGTH:
            stem = f"{stem[: NAME_LENGTH - 5]}-{hashlib.sha256(stem.encode()).hexdigest()[:4]}"
        name = f"{stem}-{self.attempt}-{group}"
        if len(name) > MAX_SANDBOX_NAME:
            raise JobError(f"sandbox name {name} has more than {MAX_SANDBOX_NAME} characters: use a shorter job name")
        return name
