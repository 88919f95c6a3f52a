"""Agent protocols: how the model names its command, and what ends an episode early. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from swerl_api import AgentSpec

SUBMISSION = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # first output line of the submitting command
EARLY_SUBMISSION = "MINI_SWE_AGENT_FINAL_OUTPUT"  # the same in the first versions of mini-swe-agent

BASH_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a bash command",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command to run"}},
            "required": ["command"],
        },
    },
}


@dataclass(frozen=True)
class AgentProtocol:
    """The rules of one protocol."""

    name: str
    fence: str | None = "bash"  # language of the block that holds the command; None: tool calls
    exactly_one: bool = True  # any other number of blocks is a format error; else the first block counts
    sentinels: tuple[str, ...] = (SUBMISSION, EARLY_SUBMISSION)
    failed_submits: bool = True  # whether a command that fails can submit
    format_error_limit: int = 0  # consecutive answers without a command that end the episode; 0: no limit
    repeat_limit: int = 0  # consecutive runs of the same command that end the episode; 0: no limit

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Tools the chat template shows the model."""
        return () if self.fence else (BASH_TOOL,)


MINI_1 = AgentProtocol("mini-swe-agent-1")
FIRST_BLOCK = AgentProtocol("first-block", exactly_one=False)
MINI_2 = AgentProtocol(
    "mini-swe-agent-2",
    fence="mswea_bash_command",
    sentinels=(SUBMISSION,),
    failed_submits=False,
    format_error_limit=3,
)
MINI_2_TOOLS = replace(MINI_2, name="mini-swe-agent-2-tools", fence=None, exactly_one=False)

PROTOCOLS: Mapping[str, AgentProtocol] = {
    protocol.name: protocol for protocol in (MINI_1, FIRST_BLOCK, MINI_2, MINI_2_TOOLS)
}


def agent_protocol(spec: AgentSpec) -> AgentProtocol:
    """The protocol of `spec`, with the limits that `spec` sets in place of the protocol's own."""
    protocol = PROTOCOLS[spec.protocol]
    return replace(
        protocol,
        format_error_limit=protocol.format_error_limit if spec.format_error_limit is None else spec.format_error_limit,
        repeat_limit=protocol.repeat_limit if spec.repeat_limit is None else spec.repeat_limit,
    )
