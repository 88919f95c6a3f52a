"""An agent with OpenAI's client and its Responses API: streams, runs commands, ends with an answer without a call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from openai import OpenAI

COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL: Any = {
    "type": "function",
    "name": "bash",
    "description": "Run a command.",
    "strict": False,
    "parameters": COMMAND,
}


def work(task: str, run: Callable[[str], str]) -> None:
    """Let the model work on the task."""
    fields: Any = {"model": os.environ["OPENAI_MODEL"], "instructions": "Fix the issue.", "tools": [TOOL]}
    items: Any = [{"role": "user", "content": task}]
    with OpenAI() as client:
        calls: Any = True
        while calls:
            with client.responses.stream(input=items, store=False, **fields) as stream:
                output: Any = stream.get_final_response().output
            items += [item.model_dump(exclude_none=True) for item in output]
            calls = [item for item in output if item.type == "function_call"]
            outputs = [(call.call_id, run(json.loads(call.arguments)["command"])) for call in calls]
            items += [{"type": "function_call_output", "call_id": name, "output": text} for name, text in outputs]


if __name__ == "__main__":
    work(sys.argv[1], subprocess.getoutput)
