"""The state of one job in plain words: what it does, why it does not train, what was observed.

Guarantee: only reads; what the reader may not read is named, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from swerl_api import API_VERSION, SweRLJobSpec
from swerl_api.names import JOB_LABEL, ROLE_LABEL
from swerl_api.swerljob import duration_words
from swerl_kube import Forbidden, Json, KubeClient

from .overview import JobRow, job_row
from .pods import RAY_ROLES, SandboxStates, WaitingPod, event_time, sandbox_states, waiting_pods
from .reasons import Cause, causes_of, seconds_since, status_of
from .steering import find_job

SHOWN_EVENTS = 10
SHOWN_PODS = 20  # of those that are not ready


@dataclass(frozen=True)
class JobDescription:
    """What `describe` shows."""

    row: JobRow
    attempt: int | None
    failures: int
    retries: int
    causes: Sequence[Cause]  # the most important first
    pods: Sequence[WaitingPod]  # that are not ready
    sandboxes: SandboxStates
    events: Sequence[Json]  # newest first
    last_checkpoint: str | None
    unread: Sequence[str]  # kinds that may not be read
    now: datetime

    def as_json(self) -> dict[str, Any]:
        """The description as one object."""
        return {
            "job": self.row.as_json(),
            "attempt": self.attempt,
            "failures": self.failures,
            "causes": [
                {"reason": each.reason, "message": each.message, "since": each.since, "warning": each.warning}
                for each in self.causes
            ],
            "pods": [{"name": each.name, "role": each.role, "message": each.message} for each in self.pods],
            "sandboxes": dict(self.sandboxes.pods),
            "events": [{"time": event_time(each), "message": each.get("message")} for each in self.events],
            "lastCheckpoint": self.last_checkpoint,
        }


async def describe(client: KubeClient, namespace: str, name: str) -> JobDescription:
    """Read the job, its Pods, sandboxes and Events; raises JobCommandError where there is no such job."""
    job = await find_job(client, namespace, name)
    unread: list[str] = []

    async def read(api: str, resource: str, *, labels: str = "", fields: str = "") -> list[Json]:
        try:
            return await client.list(api, resource, namespace, labels=labels, fields=fields)
        except Forbidden:
            if resource not in unread:
                unread.append(resource)
            return []

    selector = f"{JOB_LABEL}={name}"
    pods = await read("v1", "pods", labels=f"{selector},{ROLE_LABEL} in ({','.join(RAY_ROLES)})")
    groups = await read(API_VERSION, "swesandboxes", labels=selector)
    about = [name, status_of(job).ray_cluster, *(pod.name for pod in waiting_pods(pods, ())[:SHOWN_PODS])]
    lists = [await read("v1", "events", fields=f"involvedObject.name={each}") for each in about if each]
    events = [event for found in lists for event in found]
    return description(job, pods, groups, events, datetime.now(UTC), unread)


def description(
    job: Json,
    pods: Sequence[Json],
    groups: Sequence[Json],
    events: Sequence[Json],
    now: datetime,
    unread: Sequence[str] = (),
) -> JobDescription:
    """The description from what was read: the job's Ray Pods, SweSandboxes, and Events about the job and its Pods."""
    status = status_of(job)
    return JobDescription(
        row=job_row(job, now),
        attempt=status.attempt,
        failures=status.failures or 0,
        retries=int(job["spec"].get("retries", SweRLJobSpec.model_fields["retries"].default)),
        causes=causes_of(job),
        pods=waiting_pods(pods, events)[:SHOWN_PODS],
        sandboxes=sandbox_states(groups),
        events=sorted(events, key=event_time, reverse=True)[:SHOWN_EVENTS],
        last_checkpoint=status.last_checkpoint,
        unread=unread,
        now=now,
    )


def description_lines(found: JobDescription) -> list[str]:
    """The description as text."""
    row = found.row
    lines = [f"{row.name} in {row.namespace}: {_headline(found)}"]
    for cause in found.causes:
        age = seconds_since(cause.since, found.now)
        since = "" if age is None else f" (for {duration_words(round(age))})"
        lines.append(f"  {'warning' if cause.warning else 'because'}: {cause.message}{since} [{cause.reason}]")
    if row.step is not None:
        lines.append(f"  progress: {_progress(row)}")
    if found.last_checkpoint:
        lines.append(f"  newest checkpoint: {found.last_checkpoint}")
    lines += [f"  Pod {pod.name} ({pod.role}): {pod.message}" for pod in found.pods]
    if any(found.sandboxes.pods.values()):
        lines.append("  sandboxes: " + ", ".join(f"{count} {state}" for state, count in found.sandboxes.pods.items()))
    lines += [f"    {count} groups wait: {message} [{reason}]" for reason, count, message in found.sandboxes.waits]
    lines += [f"  not read, because you have no right to: {kind}" for kind in found.unread]
    if found.events:
        lines.append("  newest events:")
    return lines + [f"    {_event_line(event, found.now)}" for event in found.events]


def _progress(row: JobRow) -> str:
    _, _, step, reward, resolved, _, eta, *_ = row.columns()
    facts = (("step", step), ("reward", reward), ("resolved", resolved), ("ETA", eta))
    return ", ".join(f"{name} {value}" for name, value in facts if value)


def _headline(found: JobDescription) -> str:
    phase, attempt = found.row.phase, found.attempt
    if attempt is None:
        return f"{phase}, no attempt has started"
    failed = f", {found.failures} of at most {found.retries + 1} attempts failed" if found.failures else ""
    return f"{phase}, attempt {attempt}{failed}"


def _event_line(event: Json, now: datetime) -> str:
    age = seconds_since(event_time(event) or None, now) or 0.0
    involved = event.get("involvedObject") or {}
    text = " ".join(str(event.get("message") or "").split())
    about = f"{involved.get('kind')}/{involved.get('name')}"
    return f"{duration_words(round(age)):>5} ago  {event.get('type')}  {about}: {text}"
