"""Why Pods of a job are not ready, in words, from their status and Events; sandboxes by state. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from swerl_api import SandboxCondition, SweSandboxStatus, find_condition
from swerl_api.names import JOB_LABEL, ROLE_DRIVER, ROLE_ENGINE, ROLE_LABEL, ROLE_TRAIN, TASK_LABEL
from swerl_api.swerljob import duration_words
from swerl_kube import Json

RAY_ROLES = (ROLE_DRIVER, ROLE_TRAIN, ROLE_ENGINE)
NORMAL_WAITS = ("PodInitializing", "ContainerCreating")


@dataclass(frozen=True)
class WaitingPod:
    """A Pod that is not ready, and why."""

    name: str
    role: str
    message: str


def role_of(pod: Json) -> str:
    """driver, train, engine, sandbox, grading, ... or ''."""
    return str((pod["metadata"].get("labels") or {}).get(ROLE_LABEL, ""))


def is_ready(pod: Json) -> bool:
    """Whether it passes its readiness probe."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def waiting_pods(pods: Iterable[Json], events: Iterable[Json]) -> list[WaitingPod]:
    """Ray and preflight Pods that are not ready, with the reason; those that ended well are left out."""
    newest = newest_warnings(events)
    return [
        WaitingPod(str(pod["metadata"]["name"]), role_of(pod), pod_words(pod, newest.get(pod["metadata"]["name"], "")))
        for pod in pods
        if role_of(pod) in RAY_ROLES and not is_ready(pod) and pod.get("status", {}).get("phase") != "Succeeded"
    ]


def newest_warnings(events: Iterable[Json]) -> Mapping[str, str]:
    """The newest Warning about each Pod, by its name."""
    found: dict[str, str] = {}
    for event in sorted(events, key=event_time):
        involved = event.get("involvedObject") or {}
        if involved.get("kind") == "Pod" and event.get("type") == "Warning":
            found[str(involved.get("name"))] = str(event.get("message") or "")
    return found


def event_time(event: Json) -> str:
    """When it happened last, RFC 3339."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event["metadata"].get("creationTimestamp"))
    return str(next(filter(None, times), ""))


def pod_words(pod: Json, warning: str) -> str:
    """Why a Pod is not ready: what the scheduler, the kubelet or `warning`, its newest Event, say."""
    status = pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"waits for a node: {condition.get('message') or condition.get('reason')}"
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting and waiting.get("reason") not in NORMAL_WAITS:
            return f"{container['name']}: {waiting.get('reason')}: {waiting.get('message') or warning}".rstrip(": ")
        if ended.get("exitCode"):
            detail = ended.get("message") or ended.get("reason") or ""
            return f"{container['name']} ended with exit code {ended['exitCode']}: {detail.strip()}".rstrip(": ")
    if "deletionTimestamp" in pod["metadata"]:
        return "is being deleted"
    running = next((each["name"] for each in containers if "running" in (each.get("state") or {})), None)
    if warning:
        return warning
    if running:
        return f"{running} runs and is not ready yet"
    return "pulls its image or starts" if status.get("phase") == "Pending" else str(status.get("phase"))


@dataclass(frozen=True)
class SandboxStates:
    """The sandboxes of a job: Pods by state, and groups that wait, by reason."""

    pods: Mapping[str, int]  # waiting, starting, ready, lost
    waits: Sequence[tuple[str, int, str]]  # reason, groups, message of one of them


def sandbox_states(groups: Iterable[Json]) -> SandboxStates:
    """Counts over the job's SweSandboxes."""
    pods: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for group in groups:
        status = SweSandboxStatus.model_validate(group.get("status") or {})
        wanted = int(group["spec"].get("replicas") or 1)
        made, ended = status.replicas or 0, (status.finished or 0) + (status.failed or 0)
        ready = status.ready or 0
        pods["waiting"] += wanted - made
        pods["ready"] += ready
        pods["lost"] += status.failed or 0
        pods["starting"] += max(0, made - ended - ready)
        reason, message = _wait(status)
        if reason:
            reasons[reason] += 1
            messages[reason] = message
    waits = [(reason, count, messages[reason]) for reason, count in reasons.most_common()]
    return SandboxStates({state: pods[state] for state in ("waiting", "starting", "ready", "lost")}, waits)


def _wait(status: SweSandboxStatus) -> tuple[str, str]:
    """Reason and message of a group that is not ready; ('', '') of others."""
    for type in (SandboxCondition.ADMITTED, SandboxCondition.READY):
        found = find_condition(status.conditions, type)
        if found is not None and found.status == "False" and not find_condition(status.conditions, "Finished"):
            return found.reason, found.message
    return "", ""


HEADS = ("POD", "TASK", "JOB", "STATE", "NODE", "AGE")


@dataclass(frozen=True)
class SandboxRow:
    """A sandbox in a list."""

    name: str
    task: str
    job: str
    state: str
    node: str
    age_seconds: int

    def as_json(self) -> dict[str, str | int]:
        """Fields by name."""
        return asdict(self)

    def columns(self) -> tuple[str, ...]:
        """Texts in the order of HEADS."""
        return self.name, self.task, self.job, self.state, self.node, duration_words(self.age_seconds)


def sandbox_row(pod: Json, now: datetime) -> SandboxRow:
    """The row of a sandbox Pod."""
    metadata, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return SandboxRow(
        name=str(metadata["name"]),
        task=str(labels.get(TASK_LABEL, "")),
        job=str(labels.get(JOB_LABEL, "")),
        state="ready" if is_ready(pod) else pod_words(pod, ""),
        node=str(pod["spec"].get("nodeName") or ""),
        age_seconds=max(0, round((now - created).total_seconds())),
    )
