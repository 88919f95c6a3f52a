"""Metrics of a step, by name.

Guarantees: a mean is over the episodes that have the figure, never over absent ones counted as 0; episodes ended by
infrastructure are counted, by how they ended too, and left out of everything else; names are those the field's
dashboards know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean, median

from swerl_agent.episode import SANDBOX_DESTROYED, time_metrics
from swerl_trainer.rollout.group import Rollout, StepGroups, UnusedPrefetch
from swerl_trainer.rollout.staleness import staleness

StepMetrics = dict[str, float]

# Metrics of a training step under the names that dashboards of this field use.
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
    "tflops_per_gpu": "perf/tflops_per_gpu",
    "mfu": "perf/mfu",
    "load_seconds": "perf/load_time",
    "logprob_seconds": "perf/logprob_time",
    "forward_backward_seconds": "perf/forward_backward_time",
    "optimizer_seconds": "perf/optimizer_time",
    "save_seconds": "perf/save_time",
    "update_seconds": "perf/gather_weights_time",
    "switch_seconds": "perf/switch_time",
    "load_gpu_gib": "perf/gpu_memory/load",
    "logprob_gpu_gib": "perf/gpu_memory/logprob",
    "forward_backward_gpu_gib": "perf/gpu_memory/forward_backward",
    "optimizer_gpu_gib": "perf/gpu_memory/optimizer",
    "save_gpu_gib": "perf/gpu_memory/save",
    "update_gpu_gib": "perf/gpu_memory/update",
    "switch_gpu_gib": "perf/gpu_memory/switch",
    "rewards": "rollout/rewards",
    "advantages": "rollout/advantages",
    "returns": "rollout/returns",
}
# Times of an episode, and the names of their means.
AGENT_TIMES = {
    "model_query_time_sum": "model_query_time_sum_mean",
    "env_execution_time_sum": "env_execution_time_sum_mean",
    "eval_time": "eval_time_mean",
    "agent_run_time": "agent_run_time_mean",
    "overhead_time": "overhead_time_mean",
    "total_time": "total_time_mean",
    "time_per_turn": "time_per_turn",
    "model_query_time_avg": "model_query_time_avg",
    "env_execution_time_avg": "env_execution_time_avg",
    "model_time_ratio": "model_time_ratio",
    "env_time_ratio": "env_time_ratio",
    "eval_time_ratio": "eval_time_ratio",
}
PREFETCH_HIT = 0.05  # seconds; an episode that waited at most this long found its sandbox ready
TRUNCATED = ("max_steps", "context_overflow", "prompt_too_long", "episode_timeout", "repeated_command")


def train_metrics(metrics: Mapping[str, float]) -> StepMetrics:
    """A training step's metrics under their published names."""
    return {TRAIN_NAMES.get(name, f"train/{name}"): value for name, value in metrics.items()}


def rollout_metrics(rollouts: Sequence[Rollout]) -> StepMetrics:
    """`rollout/*`, `agent/*`, `judge/*`, `sandbox/*`, and the engines' `perf/*`, of a step's episodes."""
    valid = [rollout for rollout in rollouts if rollout.valid]
    return {
        **_rewards(valid),
        **_lengths(valid),
        **_endings(rollouts),
        **_agent(valid),
        **_judge(valid),
        **_times(valid),
        **_engine(valid),
        **_sandbox(rollouts),
        **_grading(rollouts),
    }


def group_metrics(step: StepGroups) -> StepMetrics:
    """What became of the groups that were started, and those of equal rewards by that reward."""
    metrics: StepMetrics = {
        f"rollout/dynamic_filter/drop_{reason}": float(count) for reason, count in step.dropped.items()
    }
    metrics |= {
        "rollout/groups_started": float(step.started),
        "rollout/groups_trained": float(len(step.groups)),
        "rollout/groups_carried_over": float(step.carried_over),
    }
    if step.limit is not None:
        metrics["rollout/groups_limit"] = float(step.limit)
    equal: Counter[str] = Counter()
    for group in (*step.groups, *step.filtered):
        rewards = {rollout.reward for rollout in group.valid}
        if len(rewards) == 1:
            equal[f"{rewards.pop():g}"] += 1
    return metrics | {f"rollout/zero_std/count_{reward}": float(count) for reward, count in equal.items()}


def lost_episode_metrics(episodes: int, lost: Mapping[str, int]) -> StepMetrics:
    """The share of `episodes` that infrastructure ended, and how many by error code (`lost`)."""
    codes = {f"sandbox/infra_failed/{code}": float(count) for code, count in lost.items()}
    rate = sum(lost.values()) / episodes if episodes else 0.0
    return {"sandbox/episodes": float(episodes), "sandbox/infra_failed_rate": rate, **codes}


def resolved_rate(rollouts: Sequence[Rollout]) -> float | None:
    """Share of the valid episodes that resolve their task; None without a valid episode."""
    valid = [rollout.resolved for rollout in rollouts if rollout.valid]
    return fmean(valid) if valid else None


def staleness_metrics(rollouts: Sequence[Rollout], version: int, unchanged: Collection[int] = ()) -> StepMetrics:
    """Changes of the weights between the oldest version that sampled an episode and `version`, which trains on it:
    mean, largest, and how many episodes have each. A version has its step's number; steps in `unchanged` changed none.
    """
    oldest = [min(versions) for rollout in rollouts if rollout.valid and (versions := rollout.weight_versions)]
    ages = [staleness(each, version, unchanged) for each in oldest]
    if not ages:
        return {}
    counts = {f"rollout/weight_staleness/count_{age}": float(count) for age, count in sorted(Counter(ages).items())}
    return {"rollout/weight_staleness/mean": fmean(ages), "rollout/weight_staleness/max": float(max(ages))} | counts


def canary_metrics(passed: int, failed: int) -> StepMetrics:
    """Reference fixes graded since the attempt began, and the rate of those that pass."""
    total = passed + failed
    return {"sandbox/gold_canary_pass_rate": passed / total, "sandbox/gold_canaries": float(total)} if total else {}


def unused_prefetch_metrics(unused_prefetch: UnusedPrefetch) -> StepMetrics:
    """Prefetched sandboxes that no episode used, since the attempt began."""
    return {
        "sandbox/prefetch_unused_groups": float(unused_prefetch.groups),
        "sandbox/prefetch_unused_pod_seconds": unused_prefetch.pod_seconds,
    }


def _rewards(valid: Sequence[Rollout]) -> StepMetrics:
    if not valid:
        return {}
    return {
        "rollout/raw_reward": fmean(r.reward for r in valid),
        "rollout/resolved_rate": fmean(r.resolved for r in valid),
        "rollout/truncated_ratio": fmean(r.exit_status in TRUNCATED for r in valid),
        "rollout/repetition_frac": fmean(r.repeats for r in valid),
        "rollout/cached_verdict_ratio": fmean(r.cached for r in valid),
    }


def _lengths(valid: Sequence[Rollout]) -> StepMetrics:
    lengths = [rollout.sampled_tokens for rollout in valid]
    if not lengths:
        return {}
    return {
        "rollout/response_len/mean": fmean(lengths),
        "rollout/response_len/median": median(lengths),
        "rollout/response_len/max": float(max(lengths)),
        "rollout/response_len/min": float(min(lengths)),
        "rollout/sampled_tokens": float(sum(lengths)),
        "rollout/sequences_per_episode": fmean(len(rollout.segments) for rollout in valid),
    }


def _agent(valid: Sequence[Rollout]) -> StepMetrics:
    if not valid:
        return {}
    turns = [rollout.turns for rollout in valid]
    calls = [rollout.commands for rollout in valid]
    metrics: StepMetrics = {
        "agent/turns_mean": fmean(turns),
        "agent/turns_sum": float(sum(turns)),
        "agent/tool_calls_mean": fmean(calls),
        "agent/tool_calls_sum": float(sum(calls)),
        "agent/context_omitted_turns_mean": fmean(r.omitted_turns for r in valid),
    }
    if rates := [r.format_errors / r.turns for r in valid if r.turns]:
        metrics["agent/format_error_rate"] = fmean(rates)
    counts = Counter(f"agent/patch_source/{rollout.patch_source or 'none'}" for rollout in valid)
    counts.update(f"agent/suspicion/{rule}" for rollout in valid for rule in rollout.suspicions)
    return metrics | {name: float(count) for name, count in counts.items()}


def _endings(rollouts: Sequence[Rollout]) -> StepMetrics:
    """How episodes ended, those that infrastructure ended included."""
    endings = Counter(f"agent/exit_status/{rollout.exit_status or 'none'}" for rollout in rollouts)
    destroyed = (r.error_code for r in rollouts if r.valid and r.exit_status == SANDBOX_DESTROYED)
    endings.update(f"agent/sandbox_destroyed/{code}" for code in destroyed)
    return {name: float(count) for name, count in endings.items()}


def _judge(valid: Sequence[Rollout]) -> StepMetrics:
    scores = [score for rollout in valid for score in rollout.step_scores.values()]
    unscored = sum(rollout.unscored_steps for rollout in valid)
    if not scores and not unscored:
        return {}
    metrics = {"judge/unscored_rate": unscored / (unscored + len(scores))}
    return metrics | ({"judge/step_score_mean": fmean(scores)} if scores else {})


def _times(valid: Sequence[Rollout]) -> StepMetrics:
    """Means of the episodes' own seconds and ratios; `total_time` is the agent's run and the grading after it."""
    times = [time_metrics(r.turns, r.seconds, eval_time=r.seconds.get("grading")) for r in valid]
    metrics: StepMetrics = {}
    for time, name in AGENT_TIMES.items():
        if values := [each[time] for each in times if time in each]:
            metrics[f"agent/{name}"] = fmean(values)
    totals = [each["total_time"] for each in times if each]
    if totals:
        metrics |= {"agent/total_time_max": max(totals), "agent/total_time_min": min(totals)}
    if ratios := [each["exec_overhead_ratio"] for each in times if "exec_overhead_ratio" in each]:
        metrics["sandbox/exec_overhead_ratio"] = fmean(ratios)
    return metrics | _exec_overhead([rollout for rollout in valid if "exec" in rollout.seconds])


def _exec_overhead(timed: Sequence[Rollout]) -> StepMetrics:
    """Seconds of transport to sandboxes and back, as means over all turns and over all commands."""
    turns, commands = sum(rollout.turns for rollout in timed), sum(rollout.commands for rollout in timed)
    overhead = sum(rollout.seconds["exec"] for rollout in timed)
    metrics = {"sandbox/exec_overhead_per_turn": overhead / turns} if turns else {}
    return metrics | ({"sandbox/exec_latency_mean": overhead / commands} if commands else {})


def _engine(valid: Sequence[Rollout]) -> StepMetrics:
    """The servers' usage of the requests, seconds per request; queue and first token where the servers measure them."""
    usages = [rollout.usage for rollout in valid if rollout.usage.get("requests")]
    if not usages:
        return {}
    total = {name: sum(usage.get(name, 0.0) for usage in usages) for name in {*chain.from_iterable(usages)}}
    requests, prompt, cached = total["requests"], total.get("prompt_tokens", 0.0), total.get("cached_tokens", 0.0)
    metrics: StepMetrics = {
        "perf/request/count": requests,
        "rollout/prefix_cache_hit_rate": cached / max(prompt, 1.0),
        "rollout/avg_cached_tokens_per_sample": cached / len(usages),
    }
    names = {"latency": "request/latency", "queue": "request/queue_time", "first_token": "prefill/first_token_latency"}
    metrics |= {f"perf/{metric}_mean": total[name] / requests for name, metric in names.items() if name in total}
    decoding = total.get("latency", 0.0) - total.get("first_token", 0.0)
    if decoding > 0 and "first_token" in total:
        metrics["perf/decode/tokens_per_sec"] = total.get("completion_tokens", 0.0) / decoding
    return metrics


def _sandbox(rollouts: Sequence[Rollout]) -> StepMetrics:
    if not rollouts:
        return {}
    metrics = lost_episode_metrics(len(rollouts), Counter(r.error_code or "unknown" for r in rollouts if not r.valid))
    metrics |= {
        "sandbox/exec_timeouts": float(sum(r.timeouts for r in rollouts)),
        "sandbox/exec_retries": float(sum(r.exec_retries for r in rollouts)),
        "sandbox/ws_handshake_errors": float(sum(r.handshake_errors for r in rollouts)),
    }
    waits = [rollout.seconds["wait"] for rollout in rollouts if "wait" in rollout.seconds]
    if waits:
        metrics |= {"sandbox/queue_wait_mean": fmean(waits), "sandbox/queue_wait_max": max(waits)}
        hits = sum(wait <= PREFETCH_HIT for wait in waits)
        metrics["sandbox/prefetch_hit_rate"] = hits / len(waits)
        metrics |= {"sandbox/prefetch_hits": float(hits), "sandbox/prefetch_misses": float(len(waits) - hits)}
    return metrics | _starts(rollouts)


def _starts(rollouts: Iterable[Rollout]) -> StepMetrics:
    """The seconds from a group's creation to ready, by part."""
    measured = [rollout.waits for rollout in rollouts if rollout.waits]
    if not measured:
        return {}
    parts = sorted({*chain.from_iterable(measured)})
    seconds = {part: [waits[part] for waits in measured if part in waits] for part in parts}  # not every pull is known
    metrics = {f"sandbox/create_latency/{part}_mean": fmean(values) for part, values in seconds.items()}
    return metrics | {"sandbox/create_latency_mean": fmean(sum(waits.values()) for waits in measured)}


def _grading(rollouts: Sequence[Rollout]) -> StepMetrics:
    graded = [rollout for rollout in rollouts if rollout.verdict]
    if not graded:
        return {}
    verdicts = Counter(rollout.verdict for rollout in graded)
    metrics = {f"sandbox/verdict/{verdict}": float(count) for verdict, count in verdicts.items()}
    metrics["sandbox/patch_apply_fail_rate"] = verdicts["patch_apply_failed"] / len(graded)
    metrics["sandbox/policy_blocked_rate"] = verdicts["policy_blocked"] / len(graded)
    metrics["sandbox/eval_infra_failure"] = verdicts["infra_error"] / len(graded)
    resolved = [rollout for rollout in graded if rollout.resolved]
    if resolved:
        metrics["sandbox/uncontrasted_rate"] = fmean(rollout.uncontrasted for rollout in resolved)
    latencies = [r.seconds["grading"] for r in graded if "grading" in r.seconds and not r.cached]
    return metrics | ({"sandbox/eval_latency": fmean(latencies)} if latencies else {})
