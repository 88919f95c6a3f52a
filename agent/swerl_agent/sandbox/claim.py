"""Sandboxes for any program: claim them, run commands in them, release them.

    async with Sandbox.claim("python:3.12", count=4) as group:
        result = await group[0].run("pytest -q", timeout=60)

Guarantees: the sandboxes are one SweSandbox group, admitted as a unit. They are deleted at the end of the context, and
within a minute (or `outlive`) after the end of a program that was killed. `run` has the guarantees of `Session.run`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, Unpack

from pydantic import ValidationError
from swerl_api import Resources
from swerl_api.base import Egress, PullPolicy, format_validation_error
from swerl_api.names import JOB_LABEL, LEASE_DURATION_SECONDS, TASK_LABEL, label_value
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import Conflict, KubeClient, KubeContext

from . import folders
from .group import CLAIM_TIMEOUT, SandboxGroup
from .lease import LeaseKeeper, process_identity, wait_until_expired
from .result import CommandResult
from .session import DEFAULT_OUTPUT, Session

JOB = "swerl-claim"  # value of the job label when the caller gives none
RETRY_PAUSE = 0.5  # seconds between retries while a group of the claim's name is being deleted


class ClaimOptions(TypedDict, total=False):
    """Optional arguments of `Sandbox.claim`, besides image and count."""

    namespace: str | None
    """Kubernetes namespace; default: the context's, or the Pod's own."""
    kubeconfig: str | KubeContext | None
    """Path; default: $KUBECONFIG, the Pod's service account, ~/.kube/config."""
    client: KubeClient | None
    """An open client to use; default: the claim opens one."""
    job: str
    """Groups of one job share the admission limit `max_concurrent`; default `swerl-claim`."""
    labels: Mapping[str, str]
    """Labels of the SweSandbox; `kueue.x-k8s.io/queue-name` assigns it to a queue of Kueue."""
    timeout: float
    """Seconds until all sandboxes must be ready; default 20 minutes."""
    name: str | None
    """Name of the SweSandbox. A killed program that claims the same name again gets its sandboxes back as they are,
    with every command that has an `id`; `Claim.taken_over` is then True. A name in use raises LeaseHeld."""
    outlive: int
    """Seconds that the sandboxes outlive a killed program; at least 40, the default."""
    login: bool
    """Whether commands start in a login shell, the default; in plain `sh` they cost at most half as much."""

    workdir: str
    """Folder in which commands start; default `/`."""
    env: Mapping[str, str]
    """Environment of the container."""
    resources: Resources | Mapping[str, Any]
    """Requests and limits, as in a Pod: `{"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}`."""
    egress: Egress
    """none, the default: no network; internet: public addresses only. Both are checked from inside every sandbox.
    allow: the cluster's network."""
    lifetime_seconds: int
    """Maximum lifetime of a sandbox in seconds; default one hour."""
    scrub_git: bool
    """Remove git history after the commit that is checked out in `workdir`; default False."""
    command: Sequence[str] | None
    """Process 1 of the container; default: it sleeps."""
    runtime_class_name: str | None
    """RuntimeClass, `gvisor` for instance; default: the cluster's."""
    host_users: bool | None
    """False: root in the sandbox is an unprivileged user on the node; default: the operator's setting."""
    image_pull_policy: PullPolicy
    """Never: a node without the image raises ImagePullFailed at once; default: the image is pulled."""
    node_selector: Mapping[str, str]
    """Labels of the nodes that may run the sandboxes."""
    tolerations: Sequence[Mapping[str, Any]]
    """Taints the sandboxes tolerate, as in a Pod."""
    image_pull_secrets: Sequence[str]
    """Names of Secrets of the namespace."""
    task_id: str
    """The purpose of the sandboxes, shown by kubectl."""
    max_concurrent: int | None
    """The claim waits while its job would have more Pods than this; default: no limit."""


# Manifests use these names, e.g. lifetimeSeconds.
_BY_ALIAS = {str(field.alias): name for name, field in SweSandboxSpec.model_fields.items() if field.alias}
CLAIM_ONLY = frozenset({"namespace", "kubeconfig", "client", "job", "labels", "timeout", "name", "outlive", "login"})


class Sandbox:
    """One claimed sandbox; commands run one after the other, each in a fresh shell in `workdir`."""

    def __init__(self, group: SandboxGroup, ordinal: int, session: Session) -> None:
        self._group, self._ordinal = group, ordinal
        self.session = session

    @staticmethod
    def claim(image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> Claim:
        """`count` sandboxes of `image`, as a context manager; `ClaimOptions` documents the options."""
        return Claim(image, count, **options)

    @property
    def name(self) -> str:
        """Name of its Pod."""
        return self._group.pod_name(self._ordinal)

    async def run(
        self,
        command: str,
        *,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        id: str | None = None,
        login: bool | None = None,
        max_output: int = DEFAULT_OUTPUT,
    ) -> CommandResult:
        """Run `command` in the folder `cwd` (default: the claim's workdir) for at most `timeout` seconds.

        * `login`: whether in a login shell; default: as the claim. `env`: its variables. `stdin`: its input.
        * `user`: name or number of the user that runs it; default: the image's user.
        * `id` makes the command idempotent: it runs once, even if a program that takes the claim over repeats the call.
        * `max_output`: bytes returned of each output, half from its start and half from its end.

        A command that fails or times out returns a result. Exit code 126 and a message when `cwd` or `user` is not
        available.

        Raises SandboxLost (and its subclasses) when the sandbox is lost, HandshakeFailed when it cannot be reached.
        Raises ValueError or TypeError for arguments that a shell cannot take.
        """
        where = cwd or self._group.spec.workdir
        return await self.session.run(
            command,
            timeout=timeout,
            cwd=where,
            env=env,
            user=user,
            stdin=stdin,
            id=id,
            login=login,
            max_output=max_output,
        )

    async def read(self, path: str) -> bytes:
        """The content of the file `path`, at most 1 GiB.

        Raises FileMissing, PathIsDirectory, NotAFile, AccessDenied, FileTooLarge: all FileErrors.
        """
        return await self.session.read_file(path)

    async def write(self, path: str, data: bytes | str, mode: int | None = None) -> None:
        """Write `data` to `path` atomically and create missing folders; raises as `read`.

        A file that exists keeps its owner and, without `mode`, its mode; a symbolic link stays one.
        """
        await self.session.write_file(path, data.encode() if isinstance(data, str) else data, mode)

    async def upload(self, source: str | Path, target: str) -> None:
        """Copy the file or folder `source` of this machine to the path `target` in the sandbox; raises FileError."""
        await folders.upload(self.session, Path(source), target)

    async def download(self, source: str, target: str | Path) -> list[str]:
        """Copy the file or folder `source` of the sandbox to the path `target` on this machine; raises FileError.

        Returns what was left out of a folder, each with the reason: devices, and links that lead out of it.
        """
        return await folders.download(self.session, source, Path(target))

    async def release(self) -> None:
        """Delete this sandbox before the end of the claim."""
        await self._group.release(self._ordinal)


class Claim:
    """`count` sandboxes of `image`, ready and isolated, as a sequence of `Sandbox` for as long as the context lasts.

    The options are those of `ClaimOptions`. Raises NotReady, ImagePullFailed, NotIsolated, ScrubFailed, KubeError, and
    LeaseHeld when another program holds a claim of that name. Raises TypeError for an unknown option, ValueError for
    an invalid one.
    """

    def __init__(self, image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> None:
        name = options.get("name")
        self._may_exist = name is not None
        self._name = name or f"claim-{os.urandom(5).hex()}"
        self._spec = _spec(image, count, self._name, options)
        self._namespace, self._kubeconfig = options.get("namespace"), options.get("kubeconfig")
        self._client = options.get("client")
        self._labels = dict(options.get("labels", {})) | {JOB_LABEL: options.get("job", JOB)}
        if self._spec.task_id:
            self._labels[TASK_LABEL] = label_value(self._spec.task_id)
        self._timeout = options.get("timeout", CLAIM_TIMEOUT)
        self._login = options.get("login", True)
        self._outlive = options.get("outlive", LEASE_DURATION_SECONDS)
        if self._outlive < LEASE_DURATION_SECONDS:
            raise ValueError(
                f"outlive must be >= {LEASE_DURATION_SECONDS} s so that one failed Lease renewal is tolerated"
            )
        self._stack = AsyncExitStack()
        self.taken_over = False  # whether the sandboxes were taken over from a program that died

    async def __aenter__(self) -> Sequence[Sandbox]:
        async with self._stack:
            group = await self._acquire()
            group.prefetch(self._timeout)
            sandboxes = [Sandbox(group, ordinal, await group.claim(ordinal)) for ordinal in range(self._spec.replicas)]
            self._stack = self._stack.pop_all()
        return sandboxes

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _acquire(self) -> SandboxGroup:
        """The group, with a Lease that is renewed until the end of the context, which deletes both."""
        client = self._client
        if client is None:
            client = await self._stack.enter_async_context(KubeClient.from_environment(self._kubeconfig))
        namespace = self._namespace or client.namespace
        group = await self._group(client, namespace)
        group.login = self._login
        lease = LeaseKeeper(
            namespace,
            self._name,
            holder=process_identity(),
            labels=self._labels,
            owner_refs=[group.reference],
            kubeconfig=self._kubeconfig,
            duration=self._outlive,
        )
        self._stack.push_async_callback(_release, group, lease)
        lease.start()
        await asyncio.to_thread(lease.wait_held)
        return group

    async def _group(self, client: KubeClient, namespace: str) -> SandboxGroup:
        """A new group, or the existing one of that name whose program died."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return await SandboxGroup.declare(
                    client, name=self._name, spec=self._spec, labels=self._labels, namespace=namespace
                )
            except Conflict:
                if not self._may_exist or time.monotonic() > deadline:
                    raise
            await wait_until_expired(client, namespace, self._name)
            found = await SandboxGroup.adopt(
                client, name=self._name, spec=self._spec, labels=self._labels, namespace=namespace
            )
            if found is not None:
                self.taken_over = True
                return found
            await asyncio.sleep(RETRY_PAUSE)


async def _release(group: SandboxGroup, lease: LeaseKeeper) -> None:
    """Delete the sandboxes, unless the Lease is lost: to another program, or expired."""
    await asyncio.to_thread(lease.stop)
    if lease.lost.done():
        await group.close()
    else:
        await group.delete()


def _spec(image: str, count: int, owner: str, options: ClaimOptions) -> SweSandboxSpec:
    known = ClaimOptions.__annotations__
    if unknown := [name for name in options if name not in {*known, *_BY_ALIAS}]:
        raise TypeError(f"a claim has no option {unknown[0]!r}; the options are {', '.join(sorted(known))}")
    given = {"workdir": "/", "scrub_git": False, **options}
    fields = {name: value for name, value in given.items() if name not in CLAIM_ONLY}
    try:
        return SweSandboxSpec.model_validate(fields | {"image": image, "replicas": count, "owner": owner})
    except ValidationError as error:
        raise ValueError(
            format_validation_error(error, names=_BY_ALIAS | {"replicas": "count", "owner": "name"})
        ) from error
