"""`swerl eval run` as a command, its model behind an OpenAI-compatible endpoint, with real sandboxes and grading."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from swerl_agent.kube import KubeClient
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns

from tests.chat_server import MODEL, Body, ChatServer, Reply, error, scripted, serving, turn
from tests.control_plane.operator_process import Operator
from tests.scripted_engine import block

from .test_episode import FIX, SUBMIT

KEY = "sk-very-secret-0123456789"
SECONDS = 400.0  # for one command
GIVES_UP = "calc__calc-2"


@dataclass
class Command:
    """`swerl eval run` of two tasks, one of which the model gives up."""

    folder: Path
    kubeconfig: str
    namespace: str

    async def __call__(self, server: ChatServer, *words: str) -> tuple[int, str]:
        """Exit code and what it said."""
        where = ["--output", str(self.folder / "out"), "--kubeconfig", self.kubeconfig, "--namespace", self.namespace]
        model = ["--engine", server.url, "--api", "chat-completions", "--api-key-env", "MODEL_KEY"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MODEL_KEY": KEY}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "swerl_agent.cli", "eval", "run", str(self.folder / "tasks.jsonl"), *where, *model,
            "--workers", "2", "--step-limit", "4", *words,
            env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode or 0, said.decode()


@pytest.fixture
def command(task: Task, kubeconfig: str, namespace: str, tmp_path: Path) -> Command:
    rows = [visible_columns(one) | grading_columns(one) for one in (task, replace(task, instance_id=GIVES_UP))]
    rows[1]["problem_statement"] = "surrender at once"
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Command(tmp_path, kubeconfig, namespace)


def solver(*answers: Reply, gives_up: Reply) -> ChatServer:
    """A model that is busy once, then fixes the one task and gives up the other."""
    solve, busy = scripted(*answers), [error(429, "slow down", **{"Retry-After": "1"})]

    def reply(body: Body) -> Reply:
        if turn(body) == 1 and busy:
            return busy.pop()
        return gives_up if "surrender at once" in json.dumps(body["messages"]) else solve(body)

    return ChatServer(reply, key=KEY, models=[MODEL, "another"])


def call(command: str) -> Body:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


async def check(command: Command, client: KubeClient, server: ChatServer, code: int, said: str) -> None:
    """One of two is resolved, everything is kept but tokens, nothing is left in the cluster."""
    assert code == 0, said
    assert "1 of 2 attempts resolved" in said and KEY not in said
    out = command.folder / "out"
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {line["instance_id"]: line["verdict"] for line in lines} == {"calc__calc-1": "resolved", GIVES_UP: ""}
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["model"], summary["resolved"], summary["errors"]) == (MODEL, 1, 0)
    assert "min(high" in json.loads((out / "preds.json").read_text())["calc__calc-1"]["model_patch"]
    (solved,) = [out / line["run_dir"] for line in lines if line["resolved"]]
    trajectory = json.loads((solved / "traj.json").read_text())
    assert trajectory["stretches"] == [] and trajectory["info"]["usage"]["prompt_tokens"] > 0
    assert len(trajectory["step_debug"]) == trajectory["info"]["turns"] == 2
    assert not [path for path in out.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert {body["model"] for body in server.asked} == {MODEL}
    left = await client.list("swerl.dev/v1alpha1", "swesandboxes", command.namespace)
    assert not left["items"]


async def test_the_builtin_agent_is_evaluated(operator: Operator, command: Command, client: KubeClient) -> None:
    async with serving(solver(block(FIX), block(SUBMIT), gives_up=block("true"))) as server:
        code, said = await command(server, "--model", "policy-7c")
        assert (code, server.asked) == (2, []), said
        assert f"knows no model 'policy-7c' but {MODEL}, another" in said
        found = await client.list("swerl.dev/v1alpha1", "swesandboxes", command.namespace)
        assert not found["items"], "no sandbox is claimed for a model that is not there"
        code, said = await command(server, "--model", MODEL)
    await check(command, client, server, code, said)


async def test_mini_swe_agent_is_evaluated(operator: Operator, command: Command, client: KubeClient) -> None:
    async with serving(solver(call(FIX), call(SUBMIT), gives_up=call("true"))) as server:
        code, said = await command(server, "--model", MODEL, "--agent", "mini-swe-agent")
    await check(command, client, server, code, said)
