"""Sandboxes for any program: claim some, run commands in them, let them go.

    async with Sandbox.claim("python:3.12", count=4) as group:
        result = await group[0].run("pytest -q", timeout=60)

Guarantees: the sandboxes are one SweSandbox group, admitted as a unit; they live no longer than the context, and no
longer than a minute after the program that claimed them, however it ended; `run` has the guarantees of `Session.run`.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from swerl_api.names import JOB_LABEL, TASK_LABEL, label_value
from swerl_api.swesandbox import SweSandboxSpec

from ..kube import KubeClient
from . import folders
from .group import CLAIM_TIMEOUT, SandboxGroup
from .lease import LeaseKeeper
from .result import CommandResult
from .session import DEFAULT_OUTPUT, Session

JOB = "swerl-claim"  # value of the job label when the caller gives none
LEASE_SECONDS = 40  # after which the sandboxes of a program that died are removed


class Sandbox:
    """One claimed sandbox; commands run one after the other, each in a fresh login shell in the work folder."""

    def __init__(self, group: SandboxGroup, ordinal: int, session: Session) -> None:
        self._group, self._ordinal = group, ordinal
        self.session = session

    @staticmethod
    def claim(image: str, count: int = 1, **options: Any) -> Claim:
        """`count` sandboxes of `image`, as a context: see `Claim`."""
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
        max_output: int = DEFAULT_OUTPUT,
    ) -> CommandResult:
        """What `command` did within `timeout` seconds; `cwd` is the group's work folder by default.

        A command that fails or is stopped for its time is a result, not an error. Raises SandboxLost (and its kinds)
        when the sandbox is gone, HandshakeFailed when it cannot be reached.
        """
        where = cwd or self._group.spec.workdir
        return await self.session.run(command, timeout=timeout, cwd=where, env=env, max_output=max_output)

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

    `namespace` and `kubeconfig`: those of the context by default; `client`: use this one instead. `job`: label by which
    groups share an admission limit; `timeout`: seconds until all must be ready. `spec`: further fields of
    SweSandboxSpec, e.g. `workdir`, `egress="allow"`, `resources`, `env`, `lifetime_seconds`, `max_concurrent`.
    Raises NotReady, ImagePullFailed, NotIsolated, ScrubFailed, KubeError; ValueError for a field that does not fit.
    """

    def __init__(
        self,
        image: str,
        count: int = 1,
        *,
        namespace: str | None = None,
        kubeconfig: str | None = None,
        client: KubeClient | None = None,
        job: str = JOB,
        timeout: float = CLAIM_TIMEOUT,
        **spec: Any,
    ) -> None:
        self._name = f"claim-{os.urandom(5).hex()}"
        wish = {"workdir": "/", "scrub_git": False, **spec}
        self._spec = SweSandboxSpec.model_validate(wish | {"image": image, "replicas": count, "owner": self._name})
        self._namespace, self._kubeconfig, self._client = namespace, kubeconfig, client
        self._labels = {JOB_LABEL: job}
        if self._spec.task_id:
            self._labels[TASK_LABEL] = label_value(self._spec.task_id)
        self._timeout = timeout
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Sequence[Sandbox]:
        async with self._stack:
            group = await self._declare()
            group.prepare(self._timeout)
            sandboxes = [Sandbox(group, ordinal, await group.claim(ordinal)) for ordinal in range(self._spec.replicas)]
            self._stack = self._stack.pop_all()
        return sandboxes

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _declare(self) -> SandboxGroup:
        client = self._client
        if client is None:
            client = await self._stack.enter_async_context(KubeClient.from_environment(self._kubeconfig))
        namespace = self._namespace or client.namespace
        holder = f"{getpass.getuser()}@{socket.gethostname()}/{os.getpid()}"
        group = await SandboxGroup.declare(
            client, name=self._name, spec=self._spec, labels=self._labels, namespace=namespace
        )
        self._stack.push_async_callback(group.delete)
        lease = LeaseKeeper(
            namespace,
            self._name,
            holder=holder,
            labels=self._labels,
            owner_refs=[group.reference],
            kubeconfig=self._kubeconfig,
            duration=LEASE_SECONDS,
        )
        lease.start()
        self._stack.push_async_callback(asyncio.to_thread, lease.stop)
        await asyncio.to_thread(lease.wait_held)
        return group
