"""Every metric of a step, and its gauge in Prometheus.

Guarantees: `group/name` is the gauge `swerl_group_name`; a part `<label>` of the name is the value of that label;
metrics of held-out evaluations begin with `eval/`, their gauges with `swerl_eval_`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PREFIX = "swerl_"
EVALUATION = "eval/"
JOB_LABEL = "swerljob"  # Prometheus itself sets the label `job` to the name of the scrape configuration

# Names by group. docs/metrics.md explains each.
STEP_METRICS: dict[str, str] = {
    "rollout": "raw_reward resolved_rate rewards advantages returns response_len/mean response_len/median"
    " response_len/max response_len/min sampled_tokens sequences_per_episode truncated_ratio repetition_frac"
    " zero_std/count_<reward> dynamic_filter/drop_<reason> cached_verdict_ratio prefix_cache_hit_rate"
    " avg_cached_tokens_per_sample weight_staleness/mean weight_staleness/max weight_staleness/count_<versions>"
    " groups_started groups_trained groups_carried_over groups_limit engines_replaced engines_slow"
    " weight_mismatches weights_uncompared",
    "judge": "step_score_mean unscored_rate",
    "agent": "turns_mean turns_sum tool_calls_mean tool_calls_sum format_error_rate context_omitted_turns_mean"
    " exit_status/<status> sandbox_destroyed/<code> patch_source/<source> suspicion/<rule> model_query_time_sum_mean"
    " env_execution_time_sum_mean eval_time_mean agent_run_time_mean overhead_time_mean total_time_mean total_time_max"
    " total_time_min time_per_turn model_query_time_avg env_execution_time_avg model_time_ratio env_time_ratio"
    " eval_time_ratio",
    "sandbox": "episodes infra_failed_rate infra_failed/<code> queue_wait_mean queue_wait_max create_latency_mean"
    " create_latency/queue_mean create_latency/schedule_mean create_latency/prepare_mean create_latency/pull_mean"
    " create_latency/start_mean prefetch_hit_rate prefetch_hits prefetch_misses prefetch_unused_groups"
    " prefetch_unused_pod_seconds exec_latency_mean exec_overhead_per_turn exec_overhead_ratio exec_timeouts"
    " exec_retries ws_handshake_errors eval_latency eval_infra_failure uncontrasted_rate verdict/<verdict>"
    " patch_apply_fail_rate policy_blocked_rate gold_canary_pass_rate gold_canaries",
    "train": "loss pg_loss kl_loss entropy_loss ppo_kl pg_clipfrac ratio logprob grad_norm lr updates new_updates"
    " skipped_updates train_rollout_logprob_abs_diff train_rollout_logprob_abs_diff_max mismatch_kl correction_weight"
    " correction_active rejected_tokens stalls tokens trainable_tokens sequences micro_batches seconds",
    "perf": "rollout_time train_time update_weights_time checkpoint_time step_time wait_time_ratio load_time"
    " logprob_time forward_backward_time optimizer_time save_time gather_weights_time switch_time gpu_memory/load"
    " gpu_memory/logprob gpu_memory/forward_backward gpu_memory/optimizer gpu_memory/save gpu_memory/update"
    " gpu_memory/switch tflops_per_gpu mfu tokens_per_gpu_per_sec"
    " train_tokens_per_second request/count request/latency_mean request/queue_time_mean"
    " prefill/first_token_latency_mean decode/tokens_per_sec",
}
NAMES: tuple[str, ...] = tuple(f"{group}/{name}" for group, names in STEP_METRICS.items() for name in names.split())
# Kinds of rows, and the gauge with the step of the newest one. A policy step replaces what a supervised one reported.
STEP_GAUGES: dict[str, str] = {"supervised": "supervised_step", "step": "step", "evaluation": "evaluation_step"}
EVALUATED = ("rollout", "agent", "sandbox", "perf")  # groups that held-out evaluations have too
LABEL = re.compile(r"<(\w+)>$")


@dataclass(frozen=True)
class Gauge:
    """A metric in Prometheus."""

    metric: str  # as the catalogue names it
    family: str
    labels: dict[str, str] = field(default_factory=dict)  # without that of the job


_LABELLED: dict[str, str] = {LABEL.sub("", name): match[1] for name in NAMES if (match := LABEL.search(name))}


def gauge_of(name: str) -> Gauge:
    """The gauge of a metric; one that the catalogue lacks, e.g. of an own loss, has no label."""
    evaluation = EVALUATION if name.startswith(EVALUATION) else ""
    plain = name.removeprefix(EVALUATION)
    for beginning, label in _LABELLED.items():
        if plain.startswith(beginning):
            family = _family(evaluation + beginning.rstrip("/_"))
            return Gauge(f"{evaluation}{beginning}<{label}>", family, {label: plain[len(beginning) :]})
    return Gauge(name, _family(name))


def _family(name: str) -> str:
    return PREFIX + re.sub(r"\W", "_", name)


def families() -> dict[str, frozenset[str]]:
    """Every gauge of the catalogue, and its labels."""
    of_evaluations = (EVALUATION + name for name in NAMES if name.partition("/")[0] in EVALUATED)
    names = [*NAMES, *of_evaluations, f"{EVALUATION}resolved_rate", f"{EVALUATION}seconds"]
    found = {gauge.family: frozenset(gauge.labels) | {JOB_LABEL} for gauge in map(gauge_of, names)}
    return found | {PREFIX + name: frozenset({JOB_LABEL}) for name in STEP_GAUGES.values()}
