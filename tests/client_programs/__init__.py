"""Agents that know nothing of swe-rl: programs with the real clients of Anthropic and OpenAI and settings of their own.

Each is run by its path with the task as its argument, and reads the variables that its client documents. `work` takes
what runs a command, for a program that works beside the sandbox.
"""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from swerl_agent.episode import Episode, HFTokenizer
from swerl_agent.gateway import AgentExit, BlackBoxRequest, Endpoint

from cluster.layout import swerl_home

FOLDER = Path(__file__).parent
PROGRAMS = ("anthropic_messages", "openai_responses")
CLIENTS = ("anthropic", "openai")


def variables(program: str, endpoint: Endpoint) -> Mapping[str, str]:
    """The settings of a program that works with the model behind `endpoint`."""
    if program == "anthropic_messages":
        urls = {"ANTHROPIC_BASE_URL": endpoint.anthropic_url, "ANTHROPIC_API_KEY": endpoint.api_key}
        return urls | {"ANTHROPIC_MODEL": endpoint.model}
    urls = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": endpoint.api_key}
    return urls | {"OPENAI_MODEL": endpoint.model}


def answers(*commands: str) -> list[str]:
    """A model's answers: a thought and a call for each command, then a text that ends the program's work."""
    calls = [json.dumps({"name": "bash", "arguments": {"command": command}}) for command in commands]
    return [*(f"<think>next</think>So:\n<tool_call>\n{call}\n</tool_call>" for call in calls), "<think>ok</think>Done."]


def packed_clients(python: str) -> bytes:
    """The clients for a version of Python on Linux, as tar.gz of a folder for PYTHONPATH; fetched once."""
    pinned = [f"{name}=={metadata.version(name)}" for name in CLIENTS]
    path = swerl_home() / "sdists" / f"clients-{python}-{'-'.join(pinned)}.tar.gz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            target = ["--target", f"{scratch}/clients", "--python-version", python]
            platform_name = f"{platform.machine()}-manylinux2014"
            place = [*target, "--python-platform", platform_name, "--only-binary", ":all:"]
            uv = str(Path(sys.executable).with_name("uv"))
            subprocess.run([uv, "pip", "install", "-q", *place, *pinned], check=True, timeout=300)
            with tarfile.open(f"{scratch}/packed", "w:gz") as archive:
                archive.add(f"{scratch}/clients", ".")
            Path(f"{scratch}/packed").rename(path)
    return path.read_bytes()


@dataclass(frozen=True)
class ClientProgram:
    """A black-box agent: a program is a command of the sandbox, and its own commands are its children."""

    program: str
    folder: Path  # of the programs, in the sandbox
    python: str
    path: str = ""  # PYTHONPATH

    async def run(self, request: BlackBoxRequest) -> AgentExit:
        """Run the program to its end."""
        words = [self.python, str(self.folder / f"{self.program}.py"), request.task.problem_statement]
        settings = {**variables(self.program, request.endpoint), "PYTHONPATH": self.path}
        done = await request.shell.run(shlex.join(words), env=settings)
        said = (done.stdout + done.stderr).decode()[-2000:]
        return AgentExit("submitted" if done.exit_code == 0 else "error", error=said or None)


def check_one_sequence(episode: Episode, tokenizer: HFTokenizer, sampled: list[str]) -> None:
    """All answers are trained in one sequence, each as it was sampled."""
    (segment,) = episode.segments
    texts = [tokenizer.decode(segment.tokens[start:end]) for _, start, end in segment.answers]
    assert [text.removesuffix("<|im_end|>") for text in texts] == sampled
    assert sum(segment.loss_mask) == sum(end - start for _, start, end in segment.answers)
