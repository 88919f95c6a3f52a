"""Figures of a step, by name.

Guarantees: a mean is over the episodes that have the figure, never over absent ones counted as 0; episodes ended by
infrastructure are counted, by how they ended too, and left out of everything else; names are those the field's
dashboards know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from swerl_trainer.rollout.group import Rollout, Waste

Figures = dict[str, float]

# Figures of a training step under the names that dashboards of this field use.
TRAIN_NAMES = {
    "loss": "train/loss",
    "policy_loss": "train/pg_loss",
    "kl": "train/kl_loss",
    "update_kl": "train/ppo_kl",
    "clip_fraction": "train/pg_clipfrac",
    "entropy": "train/entropy_loss",
    "grad_norm": "train/grad_norm",
    "mismatch_kl": "train/mismatch_kl",
    "logprob_abs_diff": "train/train_rollout_logprob_abs_diff",
    "logprob_abs_diff_max": "train/train_rollout_logprob_abs_diff_max",
    "tokens_per_second": "perf/train_tokens_per_second",
}
PREFETCH_HIT = 0.05  # seconds; an episode that waited no longer found its sandbox ready
TRUNCATED = ("max_steps", "context_overflow", "prompt_too_long", "episode_timeout", "repeated_command")


def train_figures(metrics: Mapping[str, float]) -> Figures:
    """A training step's metrics under their published names."""
    return {TRAIN_NAMES.get(name, f"train/{name}"): value for name, value in metrics.items()}


def rollout_figures(rollouts: Sequence[Rollout]) -> Figures:
    """`rollout/*`, `agent/*`, `judge/*` and `sandbox/*` of a step's episodes."""
    valid = [rollout for rollout in rollouts if rollout.valid]
    return {
        **_rewards(valid),
        **_lengths(valid),
        **_endings(rollouts),
        **_agent(valid),
        **_judge(valid),
        **_times(valid),
        **_sandbox(rollouts, valid),
    }


def group_figures(groups: Iterable[Sequence[Rollout]], dropped: Mapping[str, int]) -> Figures:
    """Groups without spread by their common reward, and groups dropped by reason."""
    figures: Figures = {f"rollout/dynamic_filter/drop_{reason}": float(count) for reason, count in dropped.items()}
    equal: Counter[str] = Counter()
    for rollouts in groups:
        rewards = {rollout.reward for rollout in rollouts if rollout.valid}
        if len(rewards) == 1:
            equal[f"{rewards.pop():g}"] += 1
    return figures | {f"rollout/zero_std/count_{reward}": float(count) for reward, count in equal.items()}


def waste_figures(waste: Waste) -> Figures:
    """Sandboxes made ahead that no episode used, since the attempt began."""
    return {
        "sandbox/prefetch_wasted_groups": float(waste.groups),
        "sandbox/prefetch_wasted_pod_seconds": waste.pod_seconds,
    }


def _rewards(valid: Sequence[Rollout]) -> Figures:
    if not valid:
        return {}
    return {
        "rollout/raw_reward": fmean(r.reward for r in valid),
        "rollout/resolved_rate": fmean(r.resolved for r in valid),
        "rollout/truncated_ratio": fmean(r.exit_status in TRUNCATED for r in valid),
        "rollout/cached_verdict_ratio": fmean(r.cached for r in valid),
    }


def _lengths(valid: Sequence[Rollout]) -> Figures:
    lengths = [rollout.sampled_tokens for rollout in valid]
    if not lengths:
        return {}
    return {
        "rollout/response_len/mean": fmean(lengths),
        "rollout/response_len/median": median(lengths),
        "rollout/response_len/max": float(max(lengths)),
        "rollout/response_len/min": float(min(lengths)),
        "rollout/sampled_tokens": float(sum(lengths)),
    }


def _agent(valid: Sequence[Rollout]) -> Figures:
    if not valid:
        return {}
    turns = [rollout.turns for rollout in valid]
    calls = [rollout.steps for rollout in valid]
    figures: Figures = {
        "agent/turns_mean": fmean(turns),
        "agent/turns_sum": float(sum(turns)),
        "agent/tool_calls_mean": fmean(calls),
        "agent/tool_calls_sum": float(sum(calls)),
        "agent/format_error_rate": sum(r.format_errors for r in valid) / max(1, sum(turns)),
        "agent/context_omitted_turns_mean": fmean(r.omitted_turns for r in valid),
    }
    sources = Counter(f"agent/patch_source/{rollout.patch_source or 'none'}" for rollout in valid)
    return figures | {name: float(count) for name, count in sources.items()}


def _endings(rollouts: Sequence[Rollout]) -> Figures:
    """How episodes ended, those that infrastructure ended included, so that what is lost is seen."""
    endings = Counter(f"agent/exit_status/{rollout.exit_status or 'none'}" for rollout in rollouts)
    return {name: float(count) for name, count in endings.items()}


def _judge(valid: Sequence[Rollout]) -> Figures:
    scores = [score for rollout in valid for score in rollout.step_scores.values()]
    unscored = sum(rollout.unscored_steps for rollout in valid)
    if not scores and not unscored:
        return {}
    figures = {"judge/unscored_rate": unscored / (unscored + len(scores))}
    return figures | ({"judge/step_score_mean": fmean(scores)} if scores else {})


def _times(valid: Sequence[Rollout]) -> Figures:
    """Seconds per episode. `total_time` is the agent's run and the grading after it."""
    names = {
        "model": "agent/model_query_time_sum_mean",
        "environment": "agent/env_execution_time_sum_mean",
        "grading": "agent/eval_time_mean",
        "total": "agent/agent_run_time_mean",
    }
    figures = {}
    for phase, name in names.items():
        values = [rollout.seconds[phase] for rollout in valid if phase in rollout.seconds]
        if values:
            figures[name] = fmean(values)
    timed = [rollout for rollout in valid if "total" in rollout.seconds]
    totals = [rollout.seconds["total"] + rollout.seconds.get("grading", 0.0) for rollout in timed]
    turns = sum(rollout.turns for rollout in timed)
    if not totals or not turns:
        return figures
    phases = ("model", "environment", "grading", "total")
    model, environment, grading, run = (sum(r.seconds.get(phase, 0.0) for r in timed) for phase in phases)
    whole = max(sum(totals), 1e-9)
    overhead = sum(rollout.seconds.get("exec", 0.0) for rollout in timed)
    return figures | {
        "sandbox/exec_overhead_per_turn": overhead / turns,
        "sandbox/exec_overhead_ratio": overhead / max(run, 1e-9),
        "agent/total_time_mean": fmean(totals),
        "agent/total_time_max": max(totals),
        "agent/total_time_min": min(totals),
        "agent/overhead_time_mean": max(0.0, run - model - environment) / len(totals),
        "agent/time_per_turn": run / turns,
        "agent/model_query_time_avg": model / turns,
        "agent/env_execution_time_avg": environment / turns,
        "agent/model_time_ratio": model / whole,
        "agent/env_time_ratio": environment / whole,
        "agent/eval_time_ratio": grading / whole,
    }


def _sandbox(rollouts: Sequence[Rollout], valid: Sequence[Rollout]) -> Figures:
    if not rollouts:
        return {}
    figures = {
        "sandbox/episodes": float(len(rollouts)),
        "sandbox/infra_failed_rate": 1.0 - len(valid) / len(rollouts),
    }
    for code, count in Counter(r.error_code or "unknown" for r in rollouts if not r.valid).items():
        figures[f"sandbox/infra_failed/{code}"] = float(count)
    waits = [rollout.seconds["wait"] for rollout in rollouts if "wait" in rollout.seconds]
    if waits:
        figures |= {"sandbox/queue_wait_mean": fmean(waits), "sandbox/queue_wait_max": max(waits)}
        hits = sum(wait <= PREFETCH_HIT for wait in waits)
        figures["sandbox/prefetch_hit_rate"] = hits / len(waits)
        figures |= {"sandbox/prefetch_hits": float(hits), "sandbox/prefetch_misses": float(len(waits) - hits)}
    graded = [rollout for rollout in rollouts if rollout.verdict]
    if graded:
        verdicts = Counter(rollout.verdict for rollout in graded)
        figures |= {f"sandbox/verdict/{verdict}": float(count) for verdict, count in verdicts.items()}
        figures["sandbox/patch_apply_fail_rate"] = verdicts["patch_apply_failed"] / len(graded)
        figures["sandbox/policy_blocked_rate"] = verdicts["policy_blocked"] / len(graded)
        figures["sandbox/eval_infra_failure"] = verdicts["infra_error"] / len(graded)
        latencies = [r.seconds["grading"] for r in graded if "grading" in r.seconds and not r.cached]
        figures |= {"sandbox/eval_latency": fmean(latencies)} if latencies else {}
    return figures
