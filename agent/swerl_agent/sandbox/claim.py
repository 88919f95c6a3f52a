"""Sandboxes for any program: claim some, run commands in them, let them go.

    async with Sandbox.claim("python:3.12", count=4) as group:
        result = await group[0].run("pytest -q", timeout=60)

Guarantees: the sandboxes are one SweSandbox group, admitted as a unit; they live no longer than the context, and no
longer than a minute after the program that claimed them, however it ended, unless it gave `outlive`; `run` has the
guarantees of `Session.run`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypedDict, Unpack

from pydantic import ValidationError
from swerl_api import Resources
from swerl_api.base import PullPolicy, faults
from swerl_api.names import JOB_LABEL, LEASE_DURATION_SECONDS, TASK_LABEL, label_value
from swerl_api.swesandbox import SweSandboxSpec

from ..kube import Conflict, KubeClient
from . import folders
from .group import CLAIM_TIMEOUT, SandboxGroup
from .lease import LeaseKeeper, this_process, until_abandoned
from .result import CommandResult
from .session import DEFAULT_OUTPUT, Session

JOB = "swerl-claim"  # value of the job label when the caller gives none
RETRY_PAUSE = 0.5  # seconds between looks at a group of the claim's name that is about to vanish


class ClaimOptions(TypedDict, total=False):
    """What `Sandbox.claim` takes besides image and count; all of it may be left out."""

    namespace: str | None
    """Kubernetes namespace; default: the context's, or the Pod's own."""
    kubeconfig: str | None
    """Path; default: $KUBECONFIG, the Pod's service account, ~/.kube/config."""
    client: KubeClient | None
    """An open client to use instead of one of the claim's own."""
    job: str
    """Groups of one job share the admission limit `max_concurrent`; default `swerl-claim`."""
    labels: Mapping[str, str]
    """Labels of the SweSandbox; `kueue.x-k8s.io/queue-name` hands it to a queue of Kueue."""
    timeout: float
    """Seconds until all sandboxes must be ready; default 20 minutes."""
    name: str | None
    """Name of the SweSandbox. A program that was killed and claims the same name again gets its sandboxes back as they
    are (`Claim.taken_over` tells), with every command that bears an `id`. A name in use raises LeaseHeld."""
    outlive: int
    """Seconds that the sandboxes outlive a program that was killed; 40, the default, or more."""
    login: bool
    """Whether commands begin in a login shell, the default. Without, in plain `sh`, they cost half as much or less."""

    workdir: str
    """Folder in which commands start; default `/`."""
    env: Mapping[str, str]
    """Environment of the container."""
    resources: Resources | Mapping[str, Any]
    """Requests and limits, as in a Pod: `{"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}`."""
    egress: Literal["none", "allow"]
    """none, the default: no network, which every sandbox proves from inside; allow: what the cluster gives."""
    lifetime_seconds: int
    """Seconds a sandbox lives at most; default one hour."""
    scrub_git: bool
    """Remove git history after the commit that is checked out in `workdir`; default no."""
    command: Sequence[str] | None
    """Process 1 of the container; default: it sleeps."""
    runtime_class_name: str | None
    """RuntimeClass, `gvisor` for instance; default: the cluster's."""
    host_users: bool | None
    """false: root of a sandbox is nobody on the node; default: what the operator was told."""
    image_pull_policy: PullPolicy
    """Never: a node without the image raises ImagePullFailed at once; default: it is pulled."""
    node_selector: Mapping[str, str]
    """Labels of the nodes that may run the sandboxes."""
    tolerations: Sequence[Mapping[str, Any]]
    """Taints the sandboxes tolerate, as in a Pod."""
    image_pull_secrets: Sequence[str]
    """Names of Secrets of the namespace."""
    task_id: str
    """What the sandboxes are for, shown by kubectl."""
    max_concurrent: int | None
    """The claim waits while the Pods of its job would be more than this; default no limit."""


# As a file of another agent names it: lifetimeSeconds.
_BY_ALIAS = {str(field.alias): name for name, field in SweSandboxSpec.model_fields.items() if field.alias}
OF_THE_CLAIM = frozenset({"namespace", "kubeconfig", "client", "job", "labels", "timeout", "name", "outlive", "login"})


class Sandbox:
    """One claimed sandbox; commands run one after the other, each in a fresh shell in the work folder."""

    def __init__(self, group: SandboxGroup, ordinal: int, session: Session) -> None:
        self._group, self._ordinal = group, ordinal
        self.session = session

    @staticmethod
    def claim(image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> Claim:
        """`count` sandboxes of `image`, as a context; the options are explained in `ClaimOptions`."""
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
        """What `command` did within `timeout` seconds in the folder `cwd`; default: the work folder.

        `login`: whether in a login shell; default: as the claim says. `env`: variables for it. `user`: whom it runs as,
        by name or number; default: the image's user. `stdin`: what it reads. `id`: names the command, which then runs
        once, even if a later program that takes the claim over asks for it again. `max_output`: bytes of each output
        that come back, half from its start, half from its end.

        A command that fails or is stopped for its time is a result, not an error; exit code 126 and a message when
        `cwd` or `user` cannot be had. Raises SandboxLost (and its kinds) when the sandbox is gone, HandshakeFailed when
        it cannot be reached, ValueError or TypeError for arguments that no shell can be told.
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
        """The content of the file `path`; raises FileError."""
        return await self.session.read_file(path)

    async def write(self, path: str, data: bytes | str, mode: int = 0o644) -> None:
        """Put `data` at `path`, folders included, whole or not at all; raises FileError."""
        await self.session.write_file(path, data.encode() if isinstance(data, str) else data, mode)

    async def upload(self, source: str | Path, target: str) -> None:
        """Copy the file or folder `source` of this machine to the path `target` in the sandbox; raises FileError."""
        await folders.upload(self.session, Path(source), target)

    async def download(self, source: str, target: str | Path) -> None:
        """Copy the file or folder `source` of the sandbox to the path `target` on this machine; raises FileError."""
        await folders.download(self.session, source, Path(target))

    async def release(self) -> None:
        """Let this one go before the others."""
        await self._group.release(self._ordinal)


class Claim:
    """`count` sandboxes of `image`, ready and isolated, as a sequence of `Sandbox` for as long as the context lasts.

    The options are those of `ClaimOptions`. Raises NotReady, ImagePullFailed, NotIsolated, ScrubFailed, KubeError;
    LeaseHeld when another program holds a claim of that name; TypeError for an option that does not exist, ValueError
    for one that does not fit.
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
            raise ValueError(f"outlive is {LEASE_DURATION_SECONDS} seconds at least: a Lease bears a failed renewal")
        self._stack = AsyncExitStack()
        self.taken_over = False  # whether the sandboxes are those of a program that died

    async def __aenter__(self) -> Sequence[Sandbox]:
        async with self._stack:
            group = await self._hold()
            group.prefetch(self._timeout)
            sandboxes = [Sandbox(group, ordinal, await group.claim(ordinal)) for ordinal in range(self._spec.replicas)]
            self._stack = self._stack.pop_all()
        return sandboxes

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _hold(self) -> SandboxGroup:
        """The group, with a Lease that is renewed until the context ends; both go with it."""
        client = self._client
        if client is None:
            client = await self._stack.enter_async_context(KubeClient.from_environment(self._kubeconfig))
        namespace = self._namespace or client.namespace
        group = await self._group(client, namespace)
        group.login = self._login
        lease = LeaseKeeper(
            namespace,
            self._name,
            holder=this_process(),
            labels=self._labels,
            owner_refs=[group.reference],
            kubeconfig=self._kubeconfig,
            duration=self._outlive,
        )
        self._stack.push_async_callback(_let_go, group, lease)
        lease.start()
        await asyncio.to_thread(lease.wait_held)
        return group

    async def _group(self, client: KubeClient, namespace: str) -> SandboxGroup:
        """The group declared now, or the one of that name whose program died."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return await SandboxGroup.declare(
                    client, name=self._name, spec=self._spec, labels=self._labels, namespace=namespace
                )
            except Conflict:
                if not self._may_exist or time.monotonic() > deadline:
                    raise
            await until_abandoned(client, namespace, self._name)
            found = await SandboxGroup.adopt(
                client, name=self._name, spec=self._spec, labels=self._labels, namespace=namespace
            )
            if found is not None:
                self.taken_over = True
                return found
            await asyncio.sleep(RETRY_PAUSE)


async def _let_go(group: SandboxGroup, lease: LeaseKeeper) -> None:
    """Remove the sandboxes, unless another program took them over or they are gone with the Lease."""
    await asyncio.to_thread(lease.stop)
    if lease.lost.done():
        await group.close()
    else:
        await group.delete()


def _spec(image: str, count: int, owner: str, options: ClaimOptions) -> SweSandboxSpec:
    known = ClaimOptions.__annotations__
    if unknown := [name for name in options if name not in {*known, *_BY_ALIAS}]:
        raise TypeError(f"a claim has no option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    wish = {"workdir": "/", "scrub_git": False, **options}
    fields = {name: value for name, value in wish.items() if name not in OF_THE_CLAIM}
    try:
        return SweSandboxSpec.model_validate(fields | {"image": image, "replicas": count, "owner": owner})
    except ValidationError as error:
        raise ValueError(faults(error, names=_BY_ALIAS | {"replicas": "count", "owner": "name"})) from error
