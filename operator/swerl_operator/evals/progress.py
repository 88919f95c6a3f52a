"""Progress and failures of an evaluation's Jobs, read from their objects. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from swerl_api import EvalProgress
from swerl_api.names import PROGRESS_KEY
from swerl_kube import Json

from ..ray.pods import container_statuses

MESSAGE_LIMIT = 1500  # characters of a process's termination message


def job_condition(job: Json, type: str) -> bool:
    """Whether the Job has the condition `type`: Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] == type and one["status"] == "True" for one in conditions)


def is_over(job: Json) -> bool:
    """Whether the Job is Complete or Failed."""
    return job_condition(job, "Complete") or job_condition(job, "Failed")


def belongs_to(pod: Json, job: Json) -> bool:
    """Whether the Job created the Pod."""
    return bool(pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job["metadata"]["name"])


def lacks_pods(job: Json, pods: Sequence[Json]) -> bool:
    """Whether fewer of the Job's Pods live than it should run now."""
    spec, status = job["spec"], job.get("status") or {}
    phases = [(pod.get("status") or {}).get("phase") for pod in pods if belongs_to(pod, job)]
    succeeded = max(int(status.get("succeeded") or 0), phases.count("Succeeded"))
    left = int(spec.get("completions") or 1) - succeeded - _index_count(status.get("failedIndexes") or "")
    wanted = 0 if is_over(job) or spec.get("suspend") else min(int(spec.get("parallelism") or 1), left)
    return sum(phase not in ("Succeeded", "Failed") for phase in phases) < wanted


def failure_message(job: Json, pods: Sequence[Json]) -> str:
    """Why the Job failed, with the termination message of one of its failed Pods."""
    conditions = (job.get("status") or {}).get("conditions") or []
    reported = next((one.get("message", "") for one in conditions if one["type"] == "Failed"), "")
    name = job["metadata"]["name"]
    exits = [text for pod in pods if belongs_to(pod, job) and (text := _exit_message(pod))]
    return "; ".join([f"Job {name}: {reported}", *exits[-1:], "what was recorded stays in the output folder"])


def read_progress(config_map: Json) -> EvalProgress | None:
    """The progress in a process's ConfigMap; None for another ConfigMap."""
    text = (config_map.get("data") or {}).get(PROGRESS_KEY)
    return None if text is None else EvalProgress.model_validate(json.loads(text))


def _index_count(indexes: str) -> int:
    """How many indexes a Job's status lists, as in `1,3-5`."""
    ranges = [part.partition("-") for part in indexes.split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _, last in ranges)


def _exit_message(pod: Json) -> str:
    for entry in container_statuses(pod):
        terminated = entry.get("state", {}).get("terminated") or {}
        if terminated.get("exitCode"):
            text = str(terminated.get("message") or terminated.get("reason") or "").strip()[-MESSAGE_LIMIT:]
            return f"Pod {pod['metadata']['name']} ended with code {terminated['exitCode']}: {text}"
    return ""
