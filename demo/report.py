"""The output of the demo: summary.json, the reward curve, one solved trajectory in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def read_metrics(output: Path, kind: str = "step") -> list[dict[str, Any]]:
    """The rows of metrics.jsonl in order: those of training steps, or of another `kind`."""
    path = output / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [row for row in rows if row["kind"] == kind]


def write_summary(
    folder: Path, status: dict[str, Any], seconds: dict[str, float], steps: list[dict[str, Any]]
) -> dict[str, Any]:
    """summary.json: held-out rates before and after, per-step rewards, seconds per phase."""
    held_out = status.get("heldOut") or {}
    summary = {
        "phase": status.get("phase"),
        "held_out_before": held_out.get("before"),
        "held_out_after": held_out.get("after"),
        "rewards": [step.get("rollout/raw_reward") for step in steps],
        "resolved_rates": [step.get("rollout/resolved_rate") for step in steps],
        "logprob_max_abs_diff": [step.get("train/train_rollout_logprob_abs_diff_max") for step in steps],
        "seconds": seconds,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return summary


def draw_curve(path: Path, summary: dict[str, Any]) -> None:
    """Reward mean and resolved rate per step, held-out rates as lines, as a PNG."""
    rewards, rates = summary["rewards"], summary["resolved_rates"]
    steps = range(1, len(rewards) + 1)
    figure, axes = pyplot.subplots(figsize=(8, 4.5), dpi=120)
    axes.plot(
        steps, [100 * (rate or 0) for rate in rates], marker="o", color="tab:blue", label="training tasks resolved"
    )
    for key, style in (("held_out_before", ":"), ("held_out_after", "--")):
        if summary[key] is not None:
            label = f"{key.replace('_', ' ').replace('held out', 'held-out')}: {100 * summary[key]:.0f} %"
            axes.axhline(100 * summary[key], linestyle=style, color="tab:green", label=label)
    axes.set(xlabel="training step", ylabel="resolved, %", ylim=(0, 105), title="SweRLJob demo")
    reward_axis = axes.twinx()
    reward_axis.plot(steps, rewards, color="tab:orange", alpha=0.6, label="reward mean")
    reward_axis.set(ylabel="reward mean", ylim=(-1.05, 1.1))
    lines = axes.get_lines() + reward_axis.get_lines()
    axes.legend(lines, [str(line.get_label()) for line in lines], loc="lower right")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def solved_trajectory(artifacts: Path) -> Path | None:
    """Folder of a solved episode of the last step that has one."""
    for meta in sorted(artifacts.rglob("meta.json"), reverse=True):
        verdict = json.loads(meta.read_text()).get("verdict") or {}
        if verdict.get("status") == "resolved":
            return meta.parent
    return None


def print_trajectory(folder: Path) -> None:
    """Every message of one episode, and its patch."""
    trajectory = json.loads((folder / "traj.json").read_text())
    print(f"\n── a solved episode, in full: {folder} ──")
    for message in trajectory["messages"]:
        print(f"[{message['role']}]\n{message['content'].rstrip()}\n")
    print("[patch]\n" + (folder / "patch.diff").read_text())
