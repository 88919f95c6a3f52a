"""Folders of jobs and evaluations, written by the code that writes real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from swerl_agent.episode import Episode, GradedEpisode, TokenSegment, write_artifacts
from swerl_agent.evaluation.artifacts import write_sample
from swerl_agent.evaluation.folder import write_settings, write_summary
from swerl_agent.evaluation.records import SampleRecord, SampleRecords
from swerl_agent.grading import Verdict
from swerl_agent.judge import StepScore
from swerl_trainer.metrics.sinks import JsonlSink

PATCH = """diff --git a/store/cart.py b/store/cart.py
index d657857..8a6b798 100644
--- a/store/cart.py
+++ b/store/cart.py
@@ -10,7 +10,8 @@ class Cart:
     def total(self):
-        return sum(self.prices)
+        # quantities count, too
+        return sum(price * count for price, count in self.items())

     def clear(self):
"""
COMMANDS = (("grep -rn total store", "store/cart.py:11: def total\n"), ("pytest -q", "3 passed\n"))
RESOLVED = Verdict(
    "resolved",
    {
        "patch_successfully_applied": True,
        "tests_status": {
            "FAIL_TO_PASS": {"success": ["tests/test_cart.py::test_total"], "failure": []},
            "PASS_TO_PASS": {"success": ["tests/test_cart.py::test_clear"] * 3, "failure": []},
        },
        "contrast": "held",
        "applied": "git apply --verbose",
    },
    duration=12.5,
    detail="FAIL_TO_PASS 1/1, PASS_TO_PASS 3/3",
)
UNRESOLVED = Verdict(
    "unresolved",
    {
        "tests_status": {
            "FAIL_TO_PASS": {"success": [], "failure": ["tests/test_cart.py::test_total"]},
            "PASS_TO_PASS": {"success": ["tests/test_cart.py::test_clear"] * 3, "failure": []},
        },
        "contrast": "unavailable",
        "contrast_reason": "no test of the task can be altered",
    },
    duration=9.0,
    detail="FAIL_TO_PASS 0/1, PASS_TO_PASS 3/3",
)


def step(number: int, command: str, output: str = "", *, code: int = 0) -> dict[str, Any]:
    """The record of a command, as the episode keeps it."""
    return {
        "step_idx": number,
        "action": command,
        "returncode": code,
        "output_len": len(output),
        "output_hidden": 0,
        "output_head": output[:1500],
        "output_tail": output[-1500:],
        "start_ts": 1_000.0 + number,
        "end_ts": 1_000.4 + number,
        "ok": True,
        "timed_out": False,
        "retries": 0,
        "handshake_errors": 0,
    }


def turn_messages(number: int, command: str, output: str = "") -> list[dict[str, str]]:
    """An answer with its command, and the message with the output."""
    thought = f"<think>I look at the problem again.\nStep {number}.</think>" if number == 0 else ""
    answer = f"{thought}THOUGHT: the total ignores quantities.\n\n```bash\n{command}\n```"
    observation = f"<returncode>0</returncode>\n<output>\n{output}</output>"
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": observation}]


def episode(
    task: str = "swe-rl__store-4",
    group: str = "g1",
    index: int = 0,
    *,
    commands: tuple[tuple[str, str], ...] = COMMANDS,
    patch: str | None = PATCH,
    **fields: Any,
) -> Episode:
    """An episode of `commands` with their outputs; its context is cut before the last of more than two."""
    opening = [
        {"role": "system", "content": "You are a software engineer who works through a shell."},
        {"role": "user", "content": f"<pr_description>\nThe total of a cart is wrong ({task}).\n</pr_description>"},
    ]
    turns = [
        message
        for number, (command, output) in enumerate(commands)
        for message in turn_messages(number, command, output)
    ]
    metadata = {
        "agent_name": "builtin",
        "messages": opening + turns,
        "turns": len(commands),
        "commands": [step(number, *pair) for number, pair in enumerate(commands)],
        "segments": segments(len(commands)),
        "omitted_turns": 1 if len(commands) > 2 else 0,
        "patch": patch,
        "patch_source": "submission" if patch else None,
        "exit_status": "submitted",
        "timings": {"total": 21.0, "model": 15.5, "environment": 4.0},
    }
    return Episode(task, group, index, **{**metadata, **fields})


def segments(turns: int) -> list[TokenSegment]:
    """Forty tokens of a prompt, twenty an answer; the last of more than two answers has its own segment."""
    found: list[TokenSegment] = []
    for number in range(turns):
        if not found or (turns > 2 and number == turns - 1):
            found.append(TokenSegment(prompt_length=40))
            found[-1].read(range(100, 140))
        segment, start = found[-1], len(found[-1].tokens)
        segment.tokens += range(start, start + 20)
        segment.loss_mask += [1] * 20
        segment.logprobs += [-0.2 * place for place in range(20)]
        segment.weight_versions.append((f"v{number}", start, start + 20))
        segment.answers.append((number, start, start + 20))
        segment.read(range(5))
    return found


def write_rollout(job: Path, one: Episode, verdict: Verdict | None, number: int, **meta: Any) -> Path:
    """The folder of a training rollout of step `number`, with what the trainer adds to it."""
    scores = [asdict(StepScore(turn, 0.5, (1, None, 1))) for turn in range(one.turns)]
    reward = 1.0 if verdict and verdict.resolved else -1.0
    added = {"step": number, "reward": reward, "valid": True, "temperature": 1.0, "step_scores": scores, **meta}
    return write_artifacts(job / f"artifacts/step-{number:04d}", one, verdict, meta=added)


def write_job(job: Path, *, steps: int = 3, groups: int = 2, size: int = 4) -> None:
    """A job of so many steps, its groups' rollouts and its metrics."""
    sink = JsonlSink(job / "metrics.jsonl", attempt=1, keep={})
    for number in range(1, steps + 1):
        for group in range(groups):
            for index in range(size):
                one = episode(f"swe-rl__store-{group}", f"g{number}-{group}", index)
                write_rollout(job, one, RESOLVED if (index + number) % 3 else UNRESOLVED, number)
        sink.write("step", number, metrics(number))


def write_held_out(job: Path, number: int, *, tasks: int, solved: int) -> None:
    """A held-out evaluation after step `number`: one episode per task, of which the first `solved` are resolved."""
    for place in range(tasks):
        task, verdict = f"swe-rl__store-{place}", RESOLVED if place < solved else UNRESOLVED
        one = episode(task, f"e{number}-{place}")
        write_artifacts(job / f"artifacts/evaluation-{number:04d}", one, verdict, meta={"step": number})


def write_many(job: Path, episodes: int) -> Path:
    """Two real folders, linked so many times under the names of steps, groups and members; the last of them.

    The others have of their files only the one that the index reads, where there are more than ten thousand.
    """
    sources = [write_rollout(job / "made", episode(), verdict, 1) for verdict in (RESOLVED, UNRESOLVED)]
    for number in range(episodes):
        step, group, member = number // 64, number // 8, number % 8
        name = f"swe-rl__store-{group % 50}__gg{group}__i{member}__{1_790_000_000_000_000_000 + number}"
        folder = job / f"artifacts/step-{step:04d}" / name
        folder.mkdir(parents=True)
        whole = episodes <= 10_000 or number >= episodes - 8
        for file in sources[number % 2].iterdir() if whole else [sources[number % 2] / "meta.json"]:
            (folder / file.name).hardlink_to(file)
    JsonlSink(job / "metrics.jsonl", attempt=1, keep={}).write("step", 1, metrics(1))
    return folder


def metrics(number: int) -> Mapping[str, float]:
    """Figures of a step."""
    return {
        "rollout/raw_reward": math.tanh(number / 10) * 2 - 1,
        "rollout/resolved_rate": math.tanh(number / 10),
        "rollout/weight_staleness/mean": number / 4,
        "rollout/weight_staleness/max": number,
        "rollout/response_len/mean": 900.0,
        "rollout/response_len/max": 2000.0,
        "agent/turns_mean": 6.5,
        "sandbox/infra_failed_rate": 0.0,
        "train/loss": 1 / number,
        "train/pg_loss": 1 / number,
        "train/ppo_kl": 2e-3 * number,
        "train/kl_loss": 1e-3 * number,
        "train/entropy_loss": 0.4,
        "train/mismatch_kl": 1e-4 * number,
        "train/train_rollout_logprob_abs_diff": 1e-3,
        "perf/step_time": 60.0 + number % 7,
        "perf/rollout_time": 40.0 + number % 5,
        "perf/train_time": 15.0,
        "perf/update_weights_time": 2.0,
        "perf/checkpoint_time": 3.0,
        "perf/train_tokens_per_second": 1500.0 + number,
        "perf/tokens_per_gpu_per_sec": 100.0 + number,
        "train/grad_norm": math.nan if number == 2 else 0.5,
    }


def write_evaluation(folder: Path, tasks: int = 2, samples: int = 2, *, model: str = "tiny", solved: int = 1) -> None:
    """An evaluation whose first `solved` samples of each task are resolved."""
    settings = {"model": model, "data": "tasks"}
    write_settings(folder, settings)
    records = SampleRecords(folder)
    for number in range(tasks):
        for sample in range(samples):
            task = f"swe-rl__store-{number}"
            verdict = RESOLVED if sample < solved else UNRESOLVED
            graded = GradedEpisode(episode(task, f"{task}-{sample}", sample), verdict)
            written = write_sample(folder, graded, {"model": model, "sample": sample})
            records.add(record(task, sample, written.name, resolved=verdict.resolved))
    write_summary(folder, records, settings)


def record(task: str, sample: int, run_dir: str, *, resolved: bool) -> SampleRecord:
    """The line of a sample in results.jsonl."""
    return replace(
        SampleRecord(task, sample, resolved, True, "submitted", "resolved", "submission", 2, None, 21.0, run_dir),
        verdict="resolved" if resolved else "unresolved",
    )
