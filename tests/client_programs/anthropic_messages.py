"""An agent with Anthropic's client: streams, runs commands, ends with an answer without a call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from anthropic import Anthropic

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL: Any = {"name": "bash", "description": "Run a command.", "input_schema": COMMAND}


def work(task: str, run: Callable[[str], str]) -> None:
    """Let the model work on the task."""
    messages: list[Any] = [{"role": "user", "content": task}]
    fields: Any = {
        "model": os.environ["ANTHROPIC_MODEL"],
        "max_tokens": 1000,
        "system": "Fix the issue.",
        "tools": [TOOL],
    }
    with Anthropic() as client:
        while messages[-1]["role"] == "user":
            with client.messages.stream(messages=messages, **fields) as stream:
                content: Any = stream.get_final_message().content
            messages.append({"role": "assistant", "content": content})
            calls = [(block.id, run(block.input["command"])) for block in content if block.type == "tool_use"]
            results: Any = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in calls]
            messages += [{"role": "user", "content": results}] if results else []


if __name__ == "__main__":
    work(sys.argv[1], subprocess.getoutput)
