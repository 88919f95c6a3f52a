"""An environment of mini-swe-agent 2.x whose commands run in a sandbox Pod.

In the agent's configuration, the one line that changes:

    environment:
      environment_class: swerl_agent.integrations.mini_swe_agent.SandboxEnvironment

The class takes the fields of mini-swe-agent's `DockerEnvironment` that make sense without Docker, and means the same by
them. A command that fails or runs too long is an observation; a sandbox that is lost raises `SandboxError`, so that
nobody takes it for the agent's doing.

`python -m swerl_agent.integrations.mini_swe_agent ARGUMENTS` is mini-swe-agent's own `mini-extra ARGUMENTS` with
sandboxes in the place of Docker, for its runners that choose the image themselves (`swebench`).
"""

from __future__ import annotations

import os
import platform
from typing import Any

from minisweagent import environments
from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, ConfigDict, Field

from swerl_agent.episode.protocol import SUBMISSION
from swerl_agent.sandbox import CommandResult, blocking


class SandboxEnvironmentConfig(BaseModel):
    """Configuration; names as in mini-swe-agent, `sandbox` for what only a Pod has."""

    model_config = ConfigDict(extra="forbid")

    image: str
    """Image of the sandbox; it needs `sh`."""
    cwd: str = "/"
    """Working directory of commands."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment of commands."""
    forward_env: list[str] = Field(default_factory=list)
    """Variables of this process that are passed on where they are set; `env` has precedence."""
    timeout: int = 30
    """Seconds a command may run."""
    start_timeout: float = 1200.0
    """Seconds until the sandbox must be ready, its image pulled."""
    namespace: str | None = None
    """Kubernetes namespace; default: the context's."""
    kubeconfig: str | None = None
    """Default: $KUBECONFIG, the Pod's service account, ~/.kube/config."""
    sandbox: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a SweSandbox: egress, resources, lifetimeSeconds, runtimeClassName, ..."""


class SandboxEnvironment:
    """One sandbox, claimed at once and held until `cleanup`."""

    _claim: blocking.Claim | None = None

    def __init__(
        self, *, config_class: type[SandboxEnvironmentConfig] = SandboxEnvironmentConfig, **fields: Any
    ) -> None:
        """Raises what `Claim` raises: NotReady, ImagePullFailed, NotIsolated, KubeError."""
        self.config = config_class(**fields)
        claim = blocking.Sandbox.claim(
            self.config.image,
            namespace=self.config.namespace,
            kubeconfig=self.config.kubeconfig,
            timeout=self.config.start_timeout,
            **self.config.sandbox,
        )
        [self.sandbox] = claim.__enter__()
        self._claim = claim

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Output (both streams as they came), returncode, exception_info; raises Submitted when it ends the episode."""
        seconds = timeout or self.config.timeout
        forwarded = {name: os.environ[name] for name in self.config.forward_env if name in os.environ}
        result = self.sandbox.run(
            merged(action), timeout=seconds, cwd=cwd or self.config.cwd, env=forwarded | self.config.env
        )
        return observed(result, action, seconds)

    def get_template_vars(self, **variables: Any) -> dict[str, Any]:
        """What prompt templates may use."""
        return dict(recursive_merge(self.config.model_dump(), platform.uname()._asdict(), variables))

    def serialize(self) -> dict[str, Any]:
        """What a saved trajectory says of the environment."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        environment = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": environment}}

    def cleanup(self) -> None:
        """Remove the sandbox; no-op the second time."""
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.__exit__(None, None, None)

    def __del__(self) -> None:
        self.cleanup()


def merged(action: dict[str, Any]) -> str:
    """The command of an action, its streams as one."""
    return f"exec 2>&1\n{action.get('command', '')}"


def observed(result: CommandResult, action: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the agent sees of an action that might take `seconds`; raises Submitted when it ends the episode."""
    if result.timed_out:
        why = f"Command {action.get('command', '')!r} timed out after {seconds:g} seconds"
        return {
            "output": result.output,
            "returncode": -1,
            "exception_info": f"An error occurred while executing the command: {why}",
            "extra": {"exception_type": "TimeoutExpired", "exception": why},
        }
    lines = result.output.lstrip().splitlines(keepends=True)
    if lines and lines[0].strip() == SUBMISSION and result.exit_code == 0:
        submission = "".join(lines[1:])
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})
    return {"output": result.output, "returncode": result.exit_code, "exception_info": ""}


def main() -> None:
    """mini-swe-agent's `mini-extra`, its environment class `docker` replaced by this one."""
    from minisweagent.run.utilities.mini_extra import main as mini_extra

    environments._ENVIRONMENT_MAPPING["docker"] = "swerl_agent.integrations.mini_swe_agent.SandboxEnvironment"
    mini_extra()


if __name__ == "__main__":
    main()
