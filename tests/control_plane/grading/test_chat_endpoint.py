"""`swerl eval run` as a command, its model behind an OpenAI-compatible endpoint, with real sandboxes and grading."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from swerl_agent.tasks import Task
from swerl_agent.tasks.writing import grading_columns, visible_columns
from swerl_api.names import SANDBOX_LABEL
from swerl_kube import KubeClient

from tests.chat_server import MODEL, Body, ChatServer, Reply, error, scripted, serving, turn
from tests.control_plane.operator_process import Operator
from tests.scripted_engine import block

from .test_episode import FIX, SUBMIT

KEY = "sk-very-secret-0123456789"
SECONDS = 400.0  # for one command
CLEANUP_SECONDS = 60.0  # seconds until a killed one has no sandbox left
GIVES_UP = "calc__calc-2"


@dataclass
class Command:
    """`swerl eval run` of two tasks, one of which the model gives up."""

    folder: Path
    kubeconfig: str
    namespace: str

    async def __call__(self, server: ChatServer, *arguments: str) -> tuple[int, str]:
        """Exit code and what it said."""
        process = await self.start(server, *arguments)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode or 0, output.decode()

    async def start(self, server: ChatServer, *arguments: str) -> asyncio.subprocess.Process:
        """The process, as it runs."""
        options = ["--output", str(self.folder / "out"), "--kubeconfig", self.kubeconfig, "--namespace", self.namespace]
        model = ["--engine", server.url, "--api", "chat-completions", "--api-key-env", "MODEL_KEY"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "MODEL_KEY": KEY}
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "swerl_agent.cli", "eval", "run", str(self.folder / "tasks.jsonl"), *options, *model,
            "--workers", "2", "--step-limit", "4", *arguments,
            env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def command(task: Task, kubeconfig: str, namespace: str, tmp_path: Path) -> Command:
    rows = [
        visible_columns(row_task) | grading_columns(row_task)
        for row_task in (task, replace(task, instance_id=GIVES_UP))
    ]
    rows[1]["problem_statement"] = "surrender at once"
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Command(tmp_path, kubeconfig, namespace)


def solver(*answers: Reply, give_up_reply: Reply) -> ChatServer:
    """A model that is busy once, then fixes the one task and gives up the other."""
    solve, busy = scripted(*answers), [error(429, "slow down", **{"Retry-After": "1"})]

    def reply(body: Body) -> Reply:
        if turn(body) == 1 and busy:
            return busy.pop()
        return give_up_reply if "surrender at once" in json.dumps(body["messages"]) else solve(body)

    return ChatServer(reply, key=KEY, models=[MODEL, "another"])


def call(command: str) -> Body:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


async def check(command: Command, client: KubeClient, server: ChatServer, code: int, message: str) -> None:
    """One of two is resolved, everything is kept but tokens, nothing is left in the cluster."""
    assert code == 0, message
    assert "1 of 2 samples resolved" in message and KEY not in message
    output_folder = command.folder / "out"
    lines = [json.loads(line) for line in (output_folder / "results.jsonl").read_text().splitlines()]
    assert {line["instance_id"]: line["verdict"] for line in lines} == {"calc__calc-1": "resolved", GIVES_UP: ""}
    summary = json.loads((output_folder / "summary.json").read_text())
    assert (summary["model"], summary["resolved"], summary["errors"]) == (MODEL, 1, 0)
    assert "min(high" in json.loads((output_folder / "preds.json").read_text())["calc__calc-1"]["model_patch"]
    (solved,) = [output_folder / line["run_dir"] for line in lines if line["resolved"]]
    trajectory = json.loads((solved / "traj.json").read_text())
    assert trajectory["segments"] == [] and trajectory["info"]["usage"]["prompt_tokens"] > 0
    assert len(trajectory["step_debug"]) == trajectory["info"]["turns"] == 2
    assert not [path for path in output_folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert {body["model"] for body in server.requests} == {MODEL}
    remaining = await client.list("swerl.dev/v1alpha1", "swesandboxes", command.namespace)
    assert not remaining


async def test_builtin_agent_is_evaluated(operator: Operator, command: Command, client: KubeClient) -> None:
    async with serving(solver(block(FIX), block(SUBMIT), give_up_reply=block("true"))) as server:
        code, output = await command(server, "--model", "policy-7c")
        assert (code, server.requests) == (2, []), output
        assert f"does not serve model 'policy-7c' but {MODEL}, another" in output
        found = await client.list("swerl.dev/v1alpha1", "swesandboxes", command.namespace)
        assert not found, "no sandbox is claimed for a model that is not there"
        code, output = await command(server, "--model", MODEL)
    await check(command, client, server, code, output)


async def test_images_without_a_repository_are_an_error(
    operator: Operator, command: Command, client: KubeClient
) -> None:
    async with serving(solver(block(FIX), block(SUBMIT), give_up_reply=block("true"))) as server:
        code, output = await command(server, "--model", MODEL, "--workdir", "/tmp")
    assert code == 2, output
    assert "swerl: no patch can be taken of all 2 samples, the last at calc__calc-2: NoRepository: " in output
    assert "has no git repository at /tmp; give the repository's folder as `workdir`" in output


async def test_killed_evaluation_leaves_no_sandbox(operator: Operator, command: Command, client: KubeClient) -> None:
    busy = asyncio.Event()

    def keep_busy(body: Body) -> Reply:
        if turn(body) == 0:
            return block("true")
        busy.set()  # one command has run in a sandbox, and the next is about to
        return block("sleep 300")

    async with serving(ChatServer(keep_busy, key=KEY)) as server:
        process = await command.start(server, "--model", MODEL)
        try:
            await asyncio.wait_for(busy.wait(), SECONDS)
            assert process.returncode is None and await sandboxes(client, command.namespace)
        finally:
            if process.returncode is None:
                process.kill()
            killed = time.monotonic()
            output, _ = await process.communicate()
            print(output.decode())
    while left := await sandboxes(client, command.namespace):
        assert time.monotonic() < killed + CLEANUP_SECONDS, (
            f"{CLEANUP_SECONDS:.0f} s after the end of their program there are still {left}"
        )
        await asyncio.sleep(0.5)
    print(f"gone after {time.monotonic() - killed:.0f} s")


async def sandboxes(client: KubeClient, namespace: str) -> list[str]:
    """Names of the SweSandboxes and of their Pods."""
    groups = await client.list("swerl.dev/v1alpha1", "swesandboxes", namespace)
    pods = await client.list("v1", "pods", namespace, labels=SANDBOX_LABEL)
    return [item["metadata"]["name"] for item in (*groups, *pods)]


async def test_mini_swe_agent_is_evaluated(operator: Operator, command: Command, client: KubeClient) -> None:
    async with serving(solver(call(FIX), call(SUBMIT), give_up_reply=call("true"))) as server:
        code, output = await command(server, "--model", MODEL, "--agent", "mini-swe-agent")
    assert code == 0, output
    await check(command, client, server, code, output)
