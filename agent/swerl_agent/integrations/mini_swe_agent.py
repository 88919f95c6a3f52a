"""An environment of mini-swe-agent 2.x whose commands run in a sandbox Pod.

In the agent's configuration, the one line that changes:

    environment:
      environment_class: swerl_agent.integrations.mini_swe_agent.SandboxEnvironment

The class takes the fields of mini-swe-agent's `DockerEnvironment`. Those that apply without Docker have the same
meaning, so existing configurations, including mini-swe-agent's own, work unchanged. A command that fails or times out
is an observation. A lost sandbox raises `SandboxError`, so that it does not count as the agent's failure.

`python -m swerl_agent.integrations.mini_swe_agent ARGUMENTS` is mini-swe-agent's own `mini-extra ARGUMENTS` with
sandboxes instead of Docker, for its runners that choose the image themselves (`swebench`).
"""

from __future__ import annotations

import logging
import math
import os
import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from minisweagent import environments
from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel, ConfigDict, Field, field_validator

from swerl_agent.episode.protocol import SUBMISSION
from swerl_agent.sandbox import CommandResult, blocking
from swerl_agent.sandbox.wire import shell_text

LOGIN_SHELL = ["bash", "-lc"]
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}  # seconds, of the times that `sleep` takes
IMAGE_ENVIRONMENT = "/proc/1/environ"  # the variables of the image, each ended by a NUL
# Commands start in a login shell; in bash this restores those variables.
_RESTORE = '[ -z "$BASH_VERSION" ] || while IFS= read -r -d \'\'; do export "$REPLY"; done 2>/dev/null <'


class SandboxEnvironmentConfig(BaseModel):
    """Configuration. Names as in mini-swe-agent; `sandbox` has the fields of a Pod."""

    model_config = ConfigDict(extra="forbid")

    image: str
    """Image of the sandbox; it needs `sh`."""
    cwd: str = "/"
    """Working directory of commands."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment of commands."""
    forward_env: list[str] = Field(default_factory=list)
    """Variables of this process to pass on if they are set; `env` has precedence."""
    timeout: int = 30
    """Seconds a command may run."""
    interpreter: list[str] = LOGIN_SHELL
    """The program that gets each command as its last argument. Default; without bash it is `sh -lc`."""
    container_timeout: str = "2h"
    """Lifetime of the sandbox, including its start, in the format of `sleep`; `lifetimeSeconds` has precedence."""
    start_timeout: float = 1200.0
    """Seconds until the sandbox must be ready, its image pulled."""
    namespace: str | None = None
    """Kubernetes namespace; default: the context's."""
    kubeconfig: str | None = None
    """Default: $KUBECONFIG, the Pod's service account, ~/.kube/config."""
    sandbox: dict[str, Any] = Field(default_factory=dict)
    """Further fields of a SweSandbox: egress, resources, lifetimeSeconds, runtimeClassName, ..."""
    isolate_network: bool | None = None
    """True: no network, as by default; False: the cluster's network. `egress` of `sandbox` has precedence."""
    executable: str = "docker"
    """Docker's; ignored, as are the next two."""
    pull_timeout: int = 120
    run_args: list[str] = ["--rm"]

    @field_validator("run_args")
    @classmethod
    def _no_docker(cls, run_args: list[str]) -> list[str]:
        if set(run_args) - {"--rm"}:
            remedy = "use the fields of `sandbox` (egress, resources, ...) and set run_args: [--rm]"
            raise ValueError(f"run_args {shlex.join(run_args)} need Docker, which is not used; {remedy}")
        return run_args

    @field_validator("container_timeout")
    @classmethod
    def _is_time(cls, text: str) -> str:
        seconds_of(text)
        return text

    def sandbox_options(self) -> dict[str, Any]:
        """`sandbox` with lifetime and network."""
        given = {"lifetimeSeconds", "lifetime_seconds"} & self.sandbox.keys()
        lifetime = {} if given else {"lifetime_seconds": seconds_of(self.container_timeout)}
        network = {} if self.isolate_network is None else {"egress": "none" if self.isolate_network else "allow"}
        return network | self.sandbox | lifetime


class SandboxEnvironment:
    """One sandbox, claimed at construction and deleted by `cleanup`."""

    _claim: blocking.BlockingClaim | None = None

    def __init__(
        self,
        *,
        config_class: type[SandboxEnvironmentConfig] = SandboxEnvironmentConfig,
        logger: logging.Logger | None = None,
        **fields: Any,
    ) -> None:
        """`logger` says when the sandbox is there.

        Raises what `Claim` raises: NotReady, ImagePullFailed, NotIsolated, KubeError.
        """
        self.config = config_class(**fields)
        claim = blocking.BlockingSandbox.claim(
            self.config.image,
            namespace=self.config.namespace,
            kubeconfig=self.config.kubeconfig,
            timeout=self.config.start_timeout,
            **self.config.sandbox_options(),
        )
        [self.sandbox] = claim.__enter__()
        self._claim = claim
        (logger or logging.getLogger("minisweagent.environment")).info("Started sandbox %s", self.sandbox.name)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Output (both streams merged), returncode, exception_info; raises Submitted at the end of the episode."""
        seconds = timeout or self.config.timeout
        forwarded = {name: os.environ[name] for name in self.config.forward_env if name in os.environ}
        env, where = forwarded | self.config.env, cwd or self.config.cwd
        if self.config.interpreter == LOGIN_SHELL:
            result = self.sandbox.run(merged(action), timeout=seconds, cwd=where, env=env)
        else:
            result = self.sandbox.run(interpreted(action, self.config.interpreter, env), timeout=seconds, cwd=where)
        return observed(result, action, seconds)

    def get_template_vars(self, **variables: Any) -> dict[str, Any]:
        """The variables of prompt templates."""
        return dict(recursive_merge(self.config.model_dump(), platform.uname()._asdict(), variables))

    def serialize(self) -> dict[str, Any]:
        """The environment's part of a saved trajectory."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        environment = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": environment}}

    def cleanup(self) -> None:
        """Delete the sandbox; no-op the second time."""
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.__exit__(None, None, None)

    def __del__(self) -> None:
        self.cleanup()


def command_of(action: dict[str, Any]) -> str:
    """The command of an action, as a shell can be given it."""
    return shell_text(str(action.get("command", "")))


def merged(action: dict[str, Any]) -> str:
    """The command of an action, with both output streams merged."""
    return f"exec 2>&1\n{command_of(action)}"


def interpreted(
    action: dict[str, Any],
    interpreter: Sequence[str],
    env: Mapping[str, str],
    image_environment: str = IMAGE_ENVIRONMENT,
) -> str:
    """Text that runs the command of an action with `interpreter`, in the image's environment with `env`."""
    variables = [f"export {shlex.quote(f'{name}={value}')}" for name, value in env.items()]
    program = shlex.join([*interpreter, command_of(action)])
    return "\n".join(["exec 2>&1", _RESTORE + shlex.quote(image_environment), *variables, f"exec {program}"])


def seconds_of(text: str) -> int:
    """Whole seconds of a time in the format of `sleep`: `3s`, `1.5h`, `90`; raises ValueError."""
    found = re.fullmatch(r"(\d+\.?\d*)([smhd]?)", text)
    if found is None:
        raise ValueError(f"not a time in the format of `sleep`: {text!r}; use 90, 30m or 2h")
    return math.ceil(float(found[1]) * UNITS[found[2]])


def observed(result: CommandResult, action: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The observation of an action with a timeout of `seconds`; raises Submitted when it ends the episode."""
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
