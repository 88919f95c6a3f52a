"""Episodes of the unmodified mini-swe-agent 2.x: its agent and its model client, our gateway and our sandbox.

Guarantees: prompts, parsing, control flow and what the model is shown are mini-swe-agent's own; steps, times and the
way of the patch are those of every episode. It runs in a thread that the episode's end leaves without engine and
sandbox, so that it ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")  # the engine behind the gateway is tried again there
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else LiteLLM asks the internet for prices

import litellm
import minisweagent
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel
from minisweagent.utils.serialize import recursive_merge
from swerl_api import AgentSpec

from swerl_agent.episode import AgentProtocol, CommandRunner, Episode, EpisodeRequest, PromptError, agent_protocol
from swerl_agent.episode.rendering import failure, render
from swerl_agent.gateway import AgentExit, AgentShell, BlackBoxRequest, Endpoint, Endpoints, run_black_box
from swerl_agent.sandbox import CommandResult

from .mini_swe_agent import merged, observed
from .mini_swe_agent_config import unused_keys
from .mini_swe_agent_templates import failed_template, sandbox_templates

litellm.suppress_debug_info = True  # it prints advice at every error
for _name in ("NO_PROXY", "no_proxy"):  # the gateway is in this process
    os.environ[_name] = ",".join(filter(None, [os.environ.get(_name), "127.0.0.1"]))

logger = logging.getLogger(__name__)

NAME = "mini-swe-agent"
QUOTED = 500  # characters of a failed startup command's output in its error
EXIT_STATUSES = {
    "Submitted": "submitted",
    "LimitsExceeded": "max_steps",
    "TimeExceeded": "episode_timeout",
    "RepeatedFormatError": "repeated_format_errors",
}


@dataclass(frozen=True)
class MiniSweAgent:
    """mini-swe-agent with a configuration of its own format: sections agent, model, environment, run.

    Limits and temperature are the episode's, not the configuration's; of `environment`, `env` counts, of `run`
    `env_startup_command`. A warning names keys without effect.
    """

    config: Mapping[str, Any]
    tools: bool  # whether the model names its command by tool calls or in a block

    @classmethod
    def of(cls, protocol: AgentProtocol, config: str | None = None) -> MiniSweAgent:
        """With the YAML `config`, by default mini-swe-agent's own for SWE-bench; raises PromptError."""
        sandbox_templates()
        name = "swebench_backticks.yaml" if protocol.fence else "swebench.yaml"
        own = Path(minisweagent.__file__).parent / "config" / "benchmarks" / name
        try:
            document = yaml.safe_load(own.read_text("utf-8") if config is None else config)
        except yaml.YAMLError as error:
            raise PromptError(f"the configuration of mini-swe-agent is not valid YAML: {error}") from error
        sections = {name: document.get(name) for name in ("agent", "model")} if isinstance(document, dict) else {}
        missing = [name for name, section in sections.items() if not isinstance(section, dict)]
        if missing or not sections:
            raise PromptError(f"a configuration of mini-swe-agent needs the sections agent and model: lacks {missing}")
        if config is not None and (unused := list(unused_keys(document))):
            logger.warning("keys of mini-swe-agent's configuration that have no effect: %s", ", ".join(unused))
        return cls(document, tools=not protocol.fence)

    async def run(self, request: BlackBoxRequest) -> AgentExit:
        """See BlackBoxAgent; raises PromptError for a template that does not render, and what the agent raises."""
        loop = asyncio.get_running_loop()
        agent_exit: asyncio.Future[AgentExit] = loop.create_future()
        environment = ShellEnvironment(request, loop, self._section("environment").get("env") or {})

        def run_agent() -> None:
            try:
                self._start(environment, request)
                model = self._model(request.endpoint, request.spec)
                agent = DefaultAgent(model, environment, **self._agent(request.spec))
                result = agent.run(request.task.problem_statement)
                set_outcome = partial(_set_outcome, agent_exit, _agent_exit(agent, result, environment))
            except Exception as error:
                set_outcome = partial(_set_outcome, agent_exit, failed_template(error, self.config) or error)
            if not loop.is_closed():
                loop.call_soon_threadsafe(set_outcome)

        threading.Thread(target=run_agent, name=f"mini-swe-agent {request.task.instance_id}", daemon=True).start()
        return await agent_exit

    def _start(self, environment: ShellEnvironment, request: BlackBoxRequest) -> None:
        """Run `env_startup_command`; raises PromptError when it does not render or fails."""
        command = self._section("run").get("env_startup_command")
        if not command:
            return
        try:
            rendered = render(str(command), **asdict(request.task))
        except Exception as error:
            raise PromptError(f"run.env_startup_command does not render: {failure(error, str(command))}") from error
        result = environment.execute({"command": rendered})
        if result["returncode"] != 0:
            message = f"exit code {result['returncode']}: {result['output'][-QUOTED:]}"
            raise PromptError(f"run.env_startup_command failed with {message}")

    def _agent(self, spec: AgentSpec) -> dict[str, Any]:
        return {
            **self._section("agent"),
            "step_limit": spec.step_limit,
            "cost_limit": 0,
            "wall_time_limit_seconds": 0,  # the episode's own timeout counts the sandbox's time, too
            "max_consecutive_format_errors": agent_protocol(spec).format_error_limit,
            "output_path": None,
        }

    def _model(self, endpoint: Endpoint, spec: AgentSpec) -> LitellmModel:
        section = {
            **self._section("model"),
            "model_name": f"openai/{endpoint.model}",
            "cost_tracking": "ignore_errors",
            "set_cache_control": None,
        }
        section.pop("model_class", None)
        options = dict(section.get("model_kwargs") or {})
        options.pop("temperature", None)
        section["model_kwargs"] = {
            **options,
            "api_base": endpoint.base_url,
            "api_key": endpoint.api_key,
            "timeout": spec.episode_timeout_seconds,
            "max_retries": 0,
        }
        return LitellmModel(**section) if self.tools else LitellmTextbasedModel(**section)

    def _section(self, name: str) -> dict[str, Any]:
        return dict(self.config.get(name) or {})


@dataclass(frozen=True)
class MiniSweAgentEpisodes:
    """Episodes of mini-swe-agent with the model behind a gateway."""

    gateway: Endpoints
    agent: MiniSweAgent
    spec: AgentSpec

    async def run_episode(self, request: EpisodeRequest, session: CommandRunner) -> Episode:
        """See Agent; the request's `scoring` gets no steps."""
        return await run_black_box(request, session, self.gateway, self.agent, self.spec, agent_name=NAME)


class ShellEnvironment:
    """An environment of mini-swe-agent in its thread, over a shell of the event loop."""

    def __init__(self, request: BlackBoxRequest, loop: asyncio.AbstractEventLoop, env: Mapping[str, str]) -> None:
        self._shell: AgentShell = request.shell
        self._loop, self._timeout = loop, request.spec.command_timeout_seconds
        self.config: dict[str, Any] = {"cwd": request.workdir, "timeout": self._timeout, "env": dict(env)}
        self.last: CommandResult | None = None

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Output, returncode, exception_info; raises Submitted when it ends the episode, SandboxError when lost."""
        command = str(action.get("command", ""))
        running = self._shell.run(merged(action), action=command, cwd=cwd or None, env=self.config["env"])
        self.last = asyncio.run_coroutine_threadsafe(running, self._loop).result()
        return observed(self.last, action, self._timeout)

    def get_template_vars(self, **variables: Any) -> dict[str, Any]:
        """What prompt templates may use."""
        return dict(recursive_merge(self.config, platform.uname()._asdict(), variables))

    def serialize(self) -> dict[str, Any]:
        """The environment's part of a saved trajectory."""
        return {"info": {"config": {"environment": self.config}}}


def _agent_exit(agent: DefaultAgent, result: Mapping[str, Any], environment: ShellEnvironment) -> AgentExit:
    status = str(result.get("exit_status", ""))
    interruptions = [(message.get("extra") or {}).get("interrupt_type") for message in agent.messages]
    errors = interruptions.count("FormatError")
    agent_exit = AgentExit(EXIT_STATUSES.get(status, "error"), format_errors=errors, error=status)
    return replace(agent_exit, submission=environment.last) if agent_exit.exit_status == "submitted" else agent_exit


def _set_outcome(future: asyncio.Future[AgentExit], outcome: AgentExit | Exception) -> None:
    if future.done():  # the episode has ended meanwhile
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
