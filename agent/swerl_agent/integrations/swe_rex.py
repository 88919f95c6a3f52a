"""A deployment and a runtime of SWE-ReX whose commands run in a sandbox Pod; the image needs nothing of SWE-ReX.

    deployment = SandboxDeployment(image="python:3.12")  # instead of DockerDeployment(image="python:3.12")

`python -m swerl_agent.integrations.swe_rex MODULE ARGUMENTS` runs the program MODULE (`sweagent`, for instance) with
one more type of deployment for its configuration: `type: swerl`.

Guarantees: requests, responses and exceptions are SWE-ReX's own. A failed sandbox raises `SandboxFailed`, one of those
exceptions, with the failure as its cause. Each deployment has its own thread, so calls may come from any event loop,
such as a new one of `asyncio.run`. `execute` has the guarantees of `Session.run`; sessions live as long as their stream
(see swe_rex_bash.py).
"""

from __future__ import annotations

import asyncio
import logging
import runpy
import sys
import threading
from contextlib import AsyncExitStack
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from swerex.deployment import config as swerex_config
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import DeploymentNotStartedError, DeploymentStartupError
from swerex.runtime.abstract import IsAliveResponse
from swerex.utils.log import get_logger
from swerl_kube import KubeClient, KubeError

from ..sandbox import PodConnector, Sandbox, SandboxError
from ..sandbox.blocking import LoopThread
from .swe_rex_runtime import SandboxRuntime


class SandboxDeploymentConfig(BaseModel):
    """Configuration. Names as in SWE-ReX; `sandbox` has the fields of a Pod."""

    model_config = ConfigDict(extra="forbid")

    image: str = "python:3.11"
    """Image of the sandbox; it needs `sh`, and `bash` for sessions."""
    startup_timeout: float = 1200.0
    """Seconds until the sandbox must be ready, its image pulled."""
    namespace: str | None = None
    """Kubernetes namespace; default: the context's."""
    kubeconfig: str | None = None
    """Default: $KUBECONFIG, the Pod's service account, ~/.kube/config."""
    sandbox: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a SweSandbox: egress, resources, lifetimeSeconds, runtimeClassName, ..."""
    type: Literal["swerl"] = "swerl"
    """Discriminator; do not change."""

    def get_deployment(self) -> AbstractDeployment:
        return SandboxDeployment.from_config(self)


class SandboxDeployment(AbstractDeployment):
    """One sandbox from `start` to `stop`."""

    def __init__(self, *, logger: logging.Logger | None = None, **fields: Any) -> None:
        """`fields`: those of SandboxDeploymentConfig."""
        self.logger = logger or get_logger("rex-deploy")
        self._config = SandboxDeploymentConfig(**fields)
        self._hooks = CombinedDeploymentHook()
        self._runtime: SandboxRuntime | None = None
        self._loop: LoopThread | None = None
        self._stack = AsyncExitStack()  # resources, used only in the loop's thread

    @classmethod
    def from_config(cls, config: SandboxDeploymentConfig) -> Self:
        return cls(**config.model_dump())

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    @property
    def runtime(self) -> SandboxRuntime:
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self) -> None:
        """Claim the sandbox; raises DeploymentStartupError with the cause."""
        if self._loop is not None:
            raise DeploymentStartupError("the deployment is already started: stop it first")
        self._hooks.on_custom_step("Claiming a sandbox")
        self._loop = LoopThread()
        try:
            self._runtime = await self._loop.run(self._enter(self._loop))
        except (SandboxError, KubeError, ValueError) as error:
            await self.stop()
            raise DeploymentStartupError(f"no sandbox of {self._config.image}: {error}") from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Delete the sandbox with its state; no-op without one."""
        loop, self._loop, self._runtime = self._loop, None, None
        if loop is not None:
            try:
                await loop.run(self._stack.aclose())
            finally:
                await asyncio.to_thread(loop.stop)

    async def _enter(self, loop: LoopThread) -> SandboxRuntime:
        config = self._config
        client = await self._stack.enter_async_context(KubeClient.from_environment(config.kubeconfig))
        namespace = config.namespace or client.namespace
        claim = Sandbox.claim(
            config.image,
            namespace=namespace,
            kubeconfig=config.kubeconfig,
            client=client,
            timeout=config.startup_timeout,
            **config.sandbox,
        )
        [sandbox] = await self._stack.enter_async_context(claim)
        pod = await client.get("v1", "pods", namespace, sandbox.name)
        connector = PodConnector(client, namespace, sandbox.name, uid=pod["metadata"]["uid"])
        runtime = SandboxRuntime(sandbox.session, connector, loop)
        self._stack.push_async_callback(runtime.disconnect)
        return runtime

    def __del__(self) -> None:
        """Delete a sandbox that was not stopped, in a new thread: finalizers run in any thread."""
        loop = getattr(self, "_loop", None)
        if loop is not None and not sys.is_finalizing():  # then the sandbox ends with its Lease, within a minute
            threading.Thread(target=_close, args=(loop, self._stack), name="sandbox removal").start()


def _close(loop: LoopThread, stack: AsyncExitStack) -> None:
    loop.wait(stack.aclose())
    loop.stop()


def register() -> None:
    """Add this type of deployment to SWE-ReX's union, for programs that are imported after this call."""
    swerex_config.DeploymentConfig = swerex_config.DeploymentConfig | SandboxDeploymentConfig


def main() -> None:
    """`MODULE ARGUMENTS`: run the module as a program, its configuration knowing `type: swerl`."""
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m swerl_agent.integrations.swe_rex MODULE ARGUMENTS")
    register()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
