"""What an episode can see, from the imported file to its artifacts, holds nothing that only grading may know."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from swerl_agent.cli import main
from swerl_agent.episode import (
    BuiltinAgent,
    Episode,
    EpisodeRequest,
    GradedEpisode,
    HFTokenizer,
    Prompts,
    write_artifacts,
)
from swerl_agent.episode.scrub import ScrubTestsFailed, scrub_tests
from swerl_agent.grading import Verdict, record_path
from swerl_agent.grading.swebench_report import grade_log
from swerl_agent.sandbox import CommandResult, OOMKilled
from swerl_agent.sandbox.spec import group_spec
from swerl_agent.tasks import Task, load_tasks
from swerl_api import SweRLJobSpec

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block
from tests.unit.agent.tasks.rows import SECRET, kiro, nemo_gym, prompt_line, r2e, sumanth, swebench, text_line

PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
EXAMPLE = Path(__file__).parents[4] / "swerljob.yaml"
JOB = next(item["spec"] for item in yaml.safe_load_all(EXAMPLE.read_text()) if item["kind"] == "SweRLJob")


@dataclass
class RecordingSandbox:
    """A sandbox that records its input and answers every command with a patch."""

    commands: list[str] = field(default_factory=list)
    image: str = ""

    async def run(self, command: str, **options: Any) -> CommandResult:
        self.commands.append(f"{command} {options}")
        output = PATCH.encode()
        return CommandResult("c", 0, output, b"", len(output), 0, False, 0.1)

    @asynccontextmanager
    async def without_profile(self) -> AsyncIterator[RecordingSandbox]:
        yield self


def log_of(task: Task) -> bytes:
    """Test output in which the first test fails and the others pass."""
    named = [*task.ground_truth.fail_to_pass, *task.ground_truth.pass_to_pass]
    tests = [test if "::" in test else f"r2e_tests/t.py::{test.replace('.', '::')}" for test in named]
    lines = ["= short test summary info =", f"FAILED {tests[0]}", *(f"PASSED {test}" for test in tests[1:])]
    return "\n".join(
        [">>>>> Start Test Output", *lines, ">>>>> End Test Output", ">>>>> Test Exit Code: 1", ""]
    ).encode()


def run_episode(
    task: Task, shell: RecordingSandbox, script: Script, tokenizer: HFTokenizer, *, step_limit: int
) -> Episode:
    agent = BuiltinAgent(script, tokenizer, Prompts.default(), agent_spec(step_limit=step_limit))
    return asyncio.run(agent.run_episode(EpisodeRequest(task, group="g", index=0, temperature=1.0), shell))


def visible_to_a_rollout(task: Task, tokenizer: HFTokenizer, artifacts: Path) -> dict[str, str]:
    """Everything of one rollout that is outside the trusted side."""
    sandbox = SweRLJobSpec.model_validate(JOB).sandbox
    spec = group_spec(
        sandbox, image=task.image, task_id=task.instance_id, workdir="/testbed", replicas=2, owner="job-1"
    )
    shell, script = RecordingSandbox(), Script(tokenizer, [block("cat x.py"), "no command", block("false")])
    episode = run_episode(task, shell, script, tokenizer, step_limit=4)
    detail, log = f"forged: {task.ground_truth.fail_to_pass[0]}", log_of(task)
    verdict = Verdict("unresolved", grade_log(task, log), detail=detail, log=log.decode())
    folder = write_artifacts(artifacts, episode, verdict, meta={"reward": -1.0})
    assert SECRET in record_path(folder).read_text(), "the record of the grading is apart, and names tests"
    files = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(files) == {"traj.json", "meta.json", "patch.diff"}
    return {
        "sandbox": spec.model_dump_json(by_alias=True),
        "commands": "\n".join(shell.commands),
        "prompts": "\n".join(script.read),
        "view": json.dumps(vars(task.visible())),
        "shown": repr(task) + repr(task.ground_truth) + repr(episode),
        **files,
    }


@pytest.mark.parametrize(
    "row",
    [
        text_line(sumanth(), "SWE-Gym/SWE-Gym"),
        prompt_line(sumanth(), "gym", "train"),
        kiro(sumanth(), "swe-gym"),
        nemo_gym(swebench(log_parser="parse_log_pytest"), "SWE-bench/SWE-bench_Verified", "test"),
        r2e(),
    ],
    ids=["text", "prompt", "kiro", "nemo-gym", "r2e"],
)
@pytest.mark.parametrize("options", [[], ["--whole-rows"]], ids=["apart", "whole"])
def test_gold_patch_and_tests_reach_no_sandbox_prompt_or_artifact(
    tmp_path: Path, tokenizer: HFTokenizer, row: dict[str, Any], options: list[str]
) -> None:
    source, file = tmp_path / "source.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps(row) + "\n")
    command = ["tasks", "import", str(source), "--output", str(file), "--purpose", "evaluation", *options]
    assert main(command) == 0
    (task,) = load_tasks(file, "jsonl")
    for secret in (task.ground_truth.patch, task.ground_truth.fail_to_pass[0]):
        assert SECRET in secret, "the trusted side has what it needs"
    for name, content in visible_to_a_rollout(task, tokenizer, tmp_path / "artifacts").items():
        assert SECRET not in content, name


def test_tests_of_the_image_are_removed_before_the_first_command(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    source = tmp_path / "source.jsonl"
    source.write_text(json.dumps(r2e()) + "\n")
    (task,) = load_tasks(source, "jsonl")
    shell, script = RecordingSandbox(), Script(tokenizer, [block("ls")])
    run_episode(task, shell, script, tokenizer, step_limit=1)
    assert all(path in shell.commands[0] for path in task.hidden_paths)
    assert shell.commands[0].startswith("rm -rf -- ")
    then = [command.partition(" ")[0] for command in shell.commands[1:4]]
    assert then == ["command", "command", "ls"], "the repository is checked and the baseline taken in between"


def test_sandbox_lost_before_the_first_command_is_the_infrastructure_s(tmp_path: Path, tokenizer: HFTokenizer) -> None:
    class LostSandbox(RecordingSandbox):
        async def run(self, command: str, **_: object) -> CommandResult:
            raise OOMKilled("the sandbox ended")

    source = tmp_path / "source.jsonl"
    source.write_text(json.dumps(r2e()) + "\n")
    (task,) = load_tasks(source, "jsonl")
    episode = run_episode(task, LostSandbox(), Script(tokenizer, [block("ls")]), tokenizer, step_limit=1)
    assert (episode.exit_status, episode.turns) == ("infrastructure_error", 0)
    assert GradedEpisode(episode).reward is None


class LocalShell:
    """Runs commands on this machine."""

    async def run(self, command: str, **_: object) -> CommandResult:
        done = await asyncio.to_thread(subprocess.run, ["sh", "-c", command], capture_output=True)
        return CommandResult("c", done.returncode, done.stdout, done.stderr, len(done.stdout), 0, False, 0.1)


@pytest.fixture
def scrub() -> Callable[[list[str]], None]:
    return lambda paths: asyncio.run(scrub_tests(LocalShell(), paths))


def test_hidden_paths_are_gone_and_others_stay(tmp_path: Path, scrub: Callable[[list[str]], None]) -> None:
    (tmp_path / "r2e tests").mkdir()
    for name in ("r2e tests/test_1.py", "run_tests.sh", "kept.py"):
        (tmp_path / name).write_text("")
    scrub([str(tmp_path / name) for name in ("r2e tests", "run_tests.sh", "absent")])
    assert [path.name for path in tmp_path.iterdir()] == ["kept.py"]


def test_tests_that_cannot_be_removed_are_an_infrastructure_failure(scrub: Callable[[list[str]], None]) -> None:
    with pytest.raises(ScrubTestsFailed, match="tests in the image cannot be removed") as caught:
        scrub(["/proc/version"])
    assert not caught.value.by_commands
