"""What Jobs and the processes in them say: how far they are, and why they failed. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from swerl_api import EvalProgress
from swerl_api.names import PROGRESS_KEY

from ..jobs.attempt import Object
from ..jobs.diagnosis import statuses

MESSAGE_LIMIT = 1500  # characters of a process's last words


def condition_of(job: Object, type: str) -> bool:
    """Whether the Job has ended so: Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] == type and one["status"] == "True" for one in conditions)


def failure(job: Object, pods: Sequence[Object]) -> str:
    """Why the Job failed, with the last words of one of its Pods that failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    said = next((one.get("message", "") for one in conditions if one["type"] == "Failed"), "")
    name = job["metadata"]["name"]
    words = [text for pod in pods if _of(pod, name) and (text := _last_words(pod))]
    return "; ".join([f"Job {name}: {said}", *words[-1:], "what was recorded stays in the output folder"])


def read_progress(config_map: Object) -> EvalProgress | None:
    """What a process wrote into its ConfigMap; None for another ConfigMap."""
    text = (config_map.get("data") or {}).get(PROGRESS_KEY)
    return None if text is None else EvalProgress.model_validate(json.loads(text))


def _of(pod: Object, job: str) -> bool:
    return bool(pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job)


def _last_words(pod: Object) -> str:
    for entry in statuses(pod):
        ended = entry.get("state", {}).get("terminated") or {}
        if ended.get("exitCode"):
            text = str(ended.get("message") or ended.get("reason") or "").strip()[-MESSAGE_LIMIT:]
            return f"Pod {pod['metadata']['name']} ended with code {ended['exitCode']}: {text}"
    return ""
