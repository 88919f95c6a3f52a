"""The SweSandbox that the sandbox settings of a job or an evaluation ask for."""

from __future__ import annotations

from swerl_api import SandboxSpec, SweSandboxSpec
from swerl_api.names import QUEUE_LABEL


def group_spec(wish: SandboxSpec, *, image: str, task_id: str, replicas: int, owner: str) -> SweSandboxSpec:
    """The group of `replicas` episodes at one task, which lives as long as the Lease `owner`."""
    return SweSandboxSpec(
        image=image,
        replicas=replicas,
        workdir=wish.workdir,
        resources=wish.resources,
        runtime_class_name=wish.runtime_class_name,
        host_users=wish.host_users,
        egress=wish.egress,
        lifetime_seconds=wish.lifetime_seconds,
        owner=owner,
        scrub_git=wish.scrub_git,
        node_selector=wish.node_selector,
        tolerations=wish.tolerations,
        image_pull_secrets=wish.pull_secrets,
        image_pull_policy=wish.image_pull_policy,
        task_id=task_id,
        max_concurrent=wish.max_concurrent,
    )


def queue_labels(wish: SandboxSpec) -> dict[str, str]:
    """Labels of a group that name the queue which admits it; none without a queue."""
    return {QUEUE_LABEL: wish.queue_name} if wish.queue_name else {}
