"""Prompts: jinja2 templates, checked on load.

Guarantees: `Prompts.from_yaml` refuses a template that is missing, malformed or uses an unknown variable, before any
sandbox exists. A template that fails later raises PromptError with its name and line.

Variables: `fence` (language of the block that holds a command) in the first three; `task` (the problem statement),
`instance_id`, `repo`, `workdir`, `step_limit` in instance_template; `actions` (list of str), `truncated` (bool) in
format_error_template; `output` (Output) and `observation` (ObservationSpec) in
action_observation_template; `remaining` (int) in turn_reminder_template, which may be '' for no reminder.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from swerl_api import ObservationSpec

from swerl_agent.tasks import TaskView

from .protocol import MINI_1, AgentProtocol
from .rendering import failure, render


class PromptError(ValueError):
    """Prompts that cannot be used, for any task or for this one; the message names the template and the fault."""


@dataclass(frozen=True)
class Output:
    """A command's result as the templates receive it."""

    returncode: int
    output: str
    chars: int  # length of the whole output, omitted parts included
    head: str
    tail: str
    elided: int
    timed_out: bool = False
    timeout: float = 0

    @classmethod
    def of(
        cls, text: str, *, returncode: int, omitted: int, observation: ObservationSpec, timed_out: bool, timeout: float
    ) -> Output:
        """`text` is the output that was kept, `omitted` the number of characters missing inside it."""
        chars = len(text) + omitted
        tail = text[-observation.tail_chars :] if observation.tail_chars else ""
        elided = chars - observation.head_chars - observation.tail_chars
        return cls(returncode, text, chars, text[: observation.head_chars], tail, elided, timed_out, timeout)


TEMPLATES = (
    "system_template",
    "instance_template",
    "format_error_template",
    "action_observation_template",
    "turn_reminder_template",
)
OPTIONAL = "turn_reminder_template"


@dataclass(frozen=True)
class Prompts:
    """The five templates of an agent, and the fence they mention."""

    system_template: str
    instance_template: str
    format_error_template: str
    action_observation_template: str
    turn_reminder_template: str = ""
    fence: str = "bash"

    @classmethod
    def of(cls, protocol: AgentProtocol, text: str | None = None) -> Prompts:
        """The prompts of the YAML `text`, by default the built-in ones; raises PromptError."""
        return cls.default(protocol) if text is None else cls.from_yaml(text, protocol)

    @classmethod
    def default(cls, protocol: AgentProtocol = MINI_1) -> Prompts:
        """The built-in prompts of a protocol."""
        name = "default_prompts.yaml" if protocol.fence else "tool_prompts.yaml"
        return cls.from_yaml(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"), protocol)

    @classmethod
    def from_yaml(cls, text: str, protocol: AgentProtocol = MINI_1) -> Prompts:
        """The prompts under `agent` of a YAML document; other keys are ignored."""
        agent = _agent_section(text)
        missing = [name for name in TEMPLATES if name != OPTIONAL and not isinstance(agent.get(name), str)]
        if missing:
            raise PromptError(f"prompts lack agent.{', agent.'.join(missing)}")
        unknown = [str(key) for key in agent if str(key).endswith("_template") and key not in TEMPLATES]
        if unknown:
            raise PromptError(
                f"prompts have unknown agent.{', agent.'.join(unknown)}; known are {', '.join(TEMPLATES)}"
            )
        prompts = cls(**{name: str(agent.get(name) or "") for name in TEMPLATES}, fence=protocol.fence or "bash")
        prompts._render_all()
        return prompts

    def system(self) -> str:
        """The system message."""
        return _render("system_template", self.system_template, fence=self.fence)

    def instance(self, task: TaskView, *, workdir: str, step_limit: int) -> str:
        """The first user message."""
        return _render(
            "instance_template",
            self.instance_template,
            fence=self.fence,
            task=task.problem_statement,
            instance_id=task.instance_id,
            repo=task.repo,
            workdir=workdir,
            step_limit=step_limit,
        )

    def format_error(self, actions: list[str], *, truncated: bool) -> str:
        """The message for an answer without exactly one action."""
        return _render(
            "format_error_template",
            self.format_error_template,
            fence=self.fence,
            actions=actions,
            truncated=truncated,
        )

    def observation(self, output: Output, observation: ObservationSpec) -> str:
        """The message that shows a command's result."""
        template = self.action_observation_template
        return _render("action_observation_template", template, output=output, observation=observation)

    def reminder(self, remaining: int) -> str:
        """The note on the turns left, possibly ''."""
        return _render("turn_reminder_template", self.turn_reminder_template, remaining=remaining).strip()

    def _render_all(self) -> None:
        """Render every template with sample variables; raises PromptError."""
        observation = ObservationSpec()
        self.system()
        self.instance(TaskView("o__r-1", "o/r", "0" * 40, "1", "text", "image"), workdir="/testbed", step_limit=2)
        for actions, truncated in (([], False), (["a", "b"], True)):
            self.format_error(actions, truncated=truncated)
        for length in (1, observation.max_chars):
            for timed_out in (False, True):
                text = "x" * length
                output = Output.of(
                    text, returncode=0, omitted=0, observation=observation, timed_out=timed_out, timeout=1
                )
                self.observation(output, observation)
        for remaining in (2, 1, 0):
            self.reminder(remaining)


def _agent_section(text: str) -> dict[Any, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PromptError(f"prompts are not valid YAML: {error}") from error
    agent = document.get("agent") if isinstance(document, dict) else None
    if not isinstance(agent, dict):
        raise PromptError("prompts need a mapping `agent` with the templates")
    return agent


def _render(name: str, template: str, **variables: Any) -> str:
    try:
        return render(template, **variables)
    except Exception as error:  # a template may do anything: divide by zero, call what cannot be called
        raise PromptError(f"agent.{name} does not render: {failure(error, template)}") from error
