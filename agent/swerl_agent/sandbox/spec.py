"""The SweSandbox of a task, from the sandbox settings of a job or an evaluation."""

from __future__ import annotations

from swerl_api import SandboxSpec, SweSandboxSpec
from swerl_api.names import QUEUE_LABEL


def group_spec(
    settings: SandboxSpec, *, image: str, task_id: str, workdir: str, replicas: int, owner: str
) -> SweSandboxSpec:
    """The group for `replicas` episodes of one task; it lives as long as the Lease `owner`."""
    return SweSandboxSpec(
        image=image,
        replicas=replicas,
        workdir=workdir,
        resources=settings.resources,
        runtime_class_name=settings.runtime_class_name,
        host_users=settings.host_users,
        egress=settings.egress,
        lifetime_seconds=settings.lifetime_seconds,
        owner=owner,
        scrub_git=settings.scrub_git,
        node_selector=settings.node_selector,
        tolerations=settings.tolerations,
        image_pull_secrets=settings.pull_secrets,
        image_pull_policy=settings.image_pull_policy,
        task_id=task_id,
        max_concurrent=settings.max_concurrent,
    )


def queue_labels(settings: SandboxSpec) -> dict[str, str]:
    """Labels that name the queue which admits the group; empty without a queue."""
    return {QUEUE_LABEL: settings.queue_name} if settings.queue_name else {}
