"""The agent loop with scripted answers and real commands in a real repository."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import (
    PROTOCOLS,
    BuiltinAgent,
    EngineError,
    Episode,
    EpisodeRequest,
    Generation,
    GradedEpisode,
    HFTokenizer,
    Prompts,
    write_artifacts,
)
from swerl_agent.grading import Verdict
from swerl_agent.sandbox import FileError, OOMKilled, PodGone, SandboxError, StateLost, StorageExceeded, Unresponsive
from swerl_agent.tasks import GroundTruth, Task
from swerl_agent.tasks.diffs import changed_paths

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script, block

from .conftest import GOLD, SUBMIT, Run, Shell


def test_submitted_patch_ends_the_episode(run: Run) -> None:
    episode, script = run(block("sed -i s/41/42/ kit.py"), block(SUBMIT))
    assert (episode.exit_status, episode.patch_source) == ("submitted", "submission")
    assert episode.patch is not None
    assert episode.patch.startswith("diff --git a/kit.py b/kit.py\n")
    assert episode.patch.endswith("\n+answer = 42\n")
    assert [step["step_idx"] for step in episode.commands] == [0, 1]
    assert script.keys == {"g3/kit__kit-1"}
    assert "You have 19 turns left." in script.read[1]


def test_tokens_that_the_engine_read_and_sampled_are_recorded(run: Run, tokenizer: HFTokenizer) -> None:
    episode, script = run(block("cat kit.py"), block(SUBMIT))
    (segment,) = episode.segments
    text = tokenizer.decode(segment.tokens)
    assert text == script.read[-1] + block(SUBMIT) + "<|im_end|>"
    sampled = [index for index, mask in zip(segment.tokens, segment.loss_mask, strict=True) if mask]
    assert tokenizer.decode(sampled) == block("cat kit.py") + "<|im_end|>" + block(SUBMIT) + "<|im_end|>"
    assert {logprob for logprob, mask in zip(segment.logprobs, segment.loss_mask, strict=True) if mask} == {-0.25}
    assert sum(end - start for _, start, end in segment.weight_versions) == len(sampled) == episode.sampled_tokens


@pytest.mark.parametrize(
    "answer",
    ["", "no command here", block("ls") + block("pwd"), "```sh\nls\n```", "\x00\x01\ufffd" * 5, "<|im_end|>"],
)
def test_answer_without_exactly_one_action_uses_a_turn(run: Run, answer: str) -> None:
    episode, script = run(answer, block("sed -i s/41/42/ kit.py"), block(SUBMIT))
    assert episode.exit_status == "submitted"
    assert "Give exactly ONE command" in script.read[1]
    assert len(episode.commands) == 2
    assert [step["step_idx"] for step in episode.commands] == [1, 2]


def test_sentinel_inside_a_command_or_later_output_submits_nothing(run: Run) -> None:
    episode, _ = run(block("echo x; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"), block(SUBMIT), step_limit=2)
    assert len(episode.commands) == 2


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ("git rm -q old.py", "deleted file mode"),
        ("git mv old.py new.py", "rename to new.py"),
        ("chmod +x kit.py", "new mode 100755"),
        ("touch empty.py", "new file mode"),
        (r"printf '\000\001' > data.bin", "GIT binary patch"),
        (r"printf 'caf\351\n' > latin.txt", "\udce9"),
    ],
)
def test_every_kind_of_change_survives_submission(run: Run, repository: Path, change: str, mark: str) -> None:
    episode, _ = run(block(change), block(SUBMIT))
    assert episode.patch is not None
    assert mark in episode.patch
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=repository, check=True)
    patch = episode.patch.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "apply", "--check", "-"], cwd=repository, input=patch, check=True)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("git diff -- kit.py", {"kit.py"}),
        ("git diff --no-prefix -- kit.py", {"kit.py"}),
        ("git -c user.name=a -c user.email=a@b commit -qam fix; rm old.py; git diff", {"kit.py", "old.py", "note.txt"}),
        ("git diff -- kit.py | head -n 1; echo", {"kit.py"}),
        ("true", {"kit.py", "note.txt"}),
    ],
)
def test_submission_chooses_the_files_of_the_patch(run: Run, command: str, names: set[str]) -> None:
    submit = f"({command}) > ../patch 2>&1; echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat ../patch"
    episode, _ = run(block("sed -i s/41/42/ kit.py; echo tried > note.txt"), block(submit))
    assert (episode.exit_status, episode.patch_source) == ("submitted", "submission")
    assert set(changed_paths(episode.patch or "")) == names


def test_git_warnings_stay_out_of_the_patch(run: Run) -> None:
    episode, _ = run(block("sed -i s/41/42/ kit.py"), block(SUBMIT + "; echo warning: CRLF >&2"))
    assert episode.patch is not None
    assert "warning" not in episode.patch


def test_at_the_step_limit_the_work_tree_is_the_patch(run: Run) -> None:
    episode, script = run(block("sed -i s/41/42/ kit.py"), step_limit=2)
    assert (episode.exit_status, episode.patch_source) == ("max_steps", "git_diff_fallback")
    assert len(script.read) == 2
    assert "only 1 turn left" in script.read[1]
    assert episode.messages[-1]["role"] == "user"
    assert episode.segments[-1].loss_mask[-1] == 1  # nothing follows the last answer


def test_empty_submission_falls_back_to_nothing(run: Run) -> None:
    episode, _ = run(block(SUBMIT))
    assert (episode.exit_status, episode.patch, episode.patch_source) == ("submitted", None, None)


def test_timeout_is_shown_with_the_partial_output(run: Run) -> None:
    episode, script = run(block("sleep 30"), block(SUBMIT), command_timeout_seconds=0.3)
    assert "was stopped after 0.3 seconds" in script.read[1]
    assert "partial" in script.read[1]
    assert episode.commands[0]["timed_out"]
    assert not episode.infrastructure_error


def test_lost_sandbox_ends_the_episode_and_is_never_shown(run: Run) -> None:
    episode, script = run(failure=PodGone("Pod swesb-x-0 is gone"))
    assert episode.infrastructure_error
    assert (episode.exit_status, episode.patch) == ("infrastructure_error", None)
    assert (episode.error, episode.error_code) == ("PodGone: Pod swesb-x-0 is gone", "pod_gone")
    assert len(script.read) == 1
    assert "gone" not in json.dumps(episode.messages)


def test_command_with_a_nul_byte_gives_an_error_observation(run: Run, tool_tokenizer: HFTokenizer) -> None:
    arguments = json.dumps({"command": "printf '%s' '\ud800\0x' | od -An -c"})
    call = f'<tool_call>\n{{"name": "bash", "arguments": {arguments}}}\n</tool_call>'
    protocol = PROTOCOLS["mini-swe-agent-2-tools"]
    episode, _ = run(call, protocol=protocol, tokenizer=tool_tokenizer, step_limit=1)
    assert episode.exit_status == "max_steps"
    assert episode.commands[0]["output_head"].split() == ["357", "277", "275", "x"]


@pytest.mark.parametrize("kind", [OOMKilled, StorageExceeded, StateLost, Unresponsive, FileError])
def test_sandbox_that_commands_destroy_is_the_policy_s_failure(run: Run, kind: type[SandboxError]) -> None:
    episode, _ = run(block("rm -rf /"), failure=kind("the sandbox ended"))
    assert not episode.infrastructure_error
    assert (episode.exit_status, episode.error_code, episode.patch) == ("sandbox_destroyed", kind.code, None)
    assert GradedEpisode(episode).reward == 0


def test_sandbox_that_fails_before_the_model_s_first_command_is_no_fault_of_the_policy(run: Run) -> None:
    episode, script = run(block("rm -rf /"), failure=OOMKilled("the sandbox ended"), works=("check",))
    assert len(script.read) == 1, "the model answered while the baseline was taken"
    assert (episode.exit_status, episode.error_code) == ("infrastructure_error", "oom_killed")


def test_lost_engine_is_an_infrastructure_error(run: Run) -> None:
    episode, _ = run(block("ls"), EngineError("no answer"))
    assert episode.infrastructure_error
    assert episode.error_code == "engine_lost"
    assert len(episode.commands) == 1
    assert episode.sampled_tokens > 0


def test_engine_that_serves_another_model_is_an_infrastructure_error(run: Run, tokenizer: HFTokenizer) -> None:
    class Another(Script):
        async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
            generation = await super().generate(input_ids, **sampling)
            return replace(generation, output_ids=[index + tokenizer.vocab_size for index in generation.output_ids])

    episode, script = run(block("ls"), engine=Another)
    assert (episode.infrastructure_error, episode.turns, len(script.read)) == (True, 0, 1)
    assert episode.error is not None
    assert "use the tokenizer of the model that the engine serves" in episode.error


def test_answers_are_clamped_to_the_context_and_then_the_episode_ends(run: Run, tokenizer: HFTokenizer) -> None:
    long = "x" * 400
    first, _ = run(block(SUBMIT))
    window = first.segments[0].prompt_length + 60
    episode, script = run(long, long, context_tokens=window)
    assert script.limits == [60]
    assert episode.exit_status == "context_overflow"
    assert len(episode.segments[-1].tokens) == window
    assert not episode.infrastructure_error


def test_episode_may_stop_where_turns_would_be_left_out(run: Run, tokenizer: HFTokenizer) -> None:
    answers = [block(f"echo {number}; printf %s {'x' * 300}") for number in range(8)]
    limits = {"context_tokens": 3_600, "max_tokens_per_turn": 400}
    omitting, _ = run(*answers, **limits, step_limit=8)
    assert omitting.exit_status == "max_steps" and omitting.omitted_turns > 0 and len(omitting.segments) > 1
    stopping, script = run(block("sed -i s/41/42/ kit.py"), *answers, **limits, step_limit=9, context_policy="stop")
    assert (stopping.exit_status, stopping.infrastructure_error) == ("context_overflow", False)
    assert (stopping.omitted_turns, len(stopping.segments)) == (0, 1) and 1 < stopping.turns < 8
    assert set(script.limits) == {400}, "every answer may have its whole length"
    assert stopping.patch_source == "git_diff_fallback" and "+answer = 42" in (stopping.patch or "")


def test_prompt_without_room_for_an_answer_is_too_long(run: Run) -> None:
    first, _ = run(block(SUBMIT))
    window = first.segments[0].prompt_length + 100
    episode, script = run(block("ls"), context_tokens=window, max_tokens_per_turn=101, context_policy="stop")
    assert (episode.exit_status, script.limits) == ("prompt_too_long", [])
    assert (
        episode.error is not None and f"an answer 101, the window {window}: raise agent.contextTokens" in episode.error
    )
    assert run(block(SUBMIT), context_tokens=window, max_tokens_per_turn=101)[0].exit_status == "submitted"


def test_episode_timeout_ends_it_and_keeps_the_work(run: Run) -> None:
    episode, _ = run(block("sed -i s/41/42/ kit.py"), block("sleep 30"), episode_timeout_seconds=4)
    assert episode.exit_status == "episode_timeout"
    assert episode.patch_source == "git_diff_fallback"
    assert episode.timings["total"] < 15


def test_cancelled_episode_is_still_reported(tokenizer: HFTokenizer, repository: Path) -> None:
    episodes: list[Episode] = []

    async def scenario() -> None:
        task = Task("kit__kit-1", "k/k", "0" * 40, "1", "text", "image", GroundTruth("", "", "", ("a",), ()))
        script = Script(tokenizer, [block("sleep 30")])
        agent = BuiltinAgent(script, tokenizer, Prompts.default(), agent_spec())
        request = EpisodeRequest(
            task, group="g", index=0, temperature=1.0, workdir=str(repository), on_end=episodes.append
        )
        running = asyncio.create_task(agent.run_episode(request, Shell(repository)))
        await asyncio.sleep(0.5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(scenario())
    assert (episodes[0].exit_status, episodes[0].error_code) == ("cancelled", "cancelled")
    assert episodes[0].sampled_tokens > 0


def test_artifacts_hold_the_episode_without_ground_truth(run: Run, tmp_path: Path) -> None:
    episode, _ = run(block("git log --all; printf 'caf\\351\\n' > latin.txt"), block(SUBMIT))
    episode.patch_left_out = ["core: 12582912 bytes"]
    folder = write_artifacts(tmp_path / "out", episode, Verdict("resolved", {"resolved": True}), meta={"reward": 1.0})
    assert folder.name.startswith("kit__kit-1__gg3__i2__")
    assert sorted(path.name for path in folder.iterdir()) == ["meta.json", "patch.diff", "traj.json"]
    trajectory = json.loads((folder / "traj.json").read_text())
    assert (trajectory["info"]["verdict"]["status"], trajectory["info"]["reward"]) == ("resolved", 1.0)
    assert trajectory["info"]["verdict"]["audit"] == ["git-all"]
    assert [(found["rule"], found["step"]) for found in trajectory["info"]["audit"]] == [("git-all", 0)]
    assert trajectory["segments"][0]["tokens"] == episode.segments[0].tokens
    meta = json.loads((folder / "meta.json").read_text())
    assert (meta["reward"], meta["agent_name"]) == (1.0, "builtin")
    assert meta["patch_left_out"] == trajectory["info"]["patch_left_out"] == ["core: 12582912 bytes"]
    assert json.loads((folder / "traj.json").read_text())["info"] == meta
    assert b"caf\xe9" in (folder / "patch.diff").read_bytes()
    assert all(GOLD.encode() not in path.read_bytes() for path in folder.iterdir())


def artifact_verdict(folder: Path, episode: Episode) -> dict[str, Any] | None:
    verdict: dict[str, Any] | None
    verdict = json.loads((write_artifacts(folder, episode, None) / "meta.json").read_text())["verdict"]
    return verdict


def test_verdict_on_an_agent_that_left_no_patch_names_what_it_did(run: Run, tmp_path: Path) -> None:
    episode, _ = run(block("echo pip download calc; git reflog; git log --all"), block(SUBMIT))
    assert (episode.exit_status, episode.patch) == ("submitted", None)
    verdict = artifact_verdict(tmp_path, episode)
    assert verdict is not None and (verdict["status"], verdict["detail"]) == ("unresolved", "no patch")
    assert verdict["audit"] == ["git-all", "git-reflog", "package-download"]
    honest, _ = run(block("ls"), step_limit=1)
    assert (artifact_verdict(tmp_path, honest) or {})["audit"] == []


@pytest.mark.parametrize("change", [{"patch": "diff --git a/x b/x\n"}, {"error_code": "oom_killed"}])
def test_no_verdict_is_awaited_without_a_finished_episode(run: Run, tmp_path: Path, change: dict[str, str]) -> None:
    episode, _ = run(block("git log --all"), step_limit=1)
    assert artifact_verdict(tmp_path, replace(episode, **change)) is None  # type: ignore[arg-type]
