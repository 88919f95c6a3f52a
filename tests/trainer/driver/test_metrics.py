"""Metrics of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from swerl_agent.episode import TokenSegment
from swerl_trainer.megatron.metrics import METRICS
from swerl_trainer.metrics.catalogue import NAMES, gauge_of
from swerl_trainer.metrics.step_metrics import (
    TRAIN_NAMES,
    canary_metrics,
    group_metrics,
    lost_episode_metrics,
    rollout_metrics,
    staleness_metrics,
    train_metrics,
    unused_prefetch_metrics,
)
from swerl_trainer.rollout.group import GroupRequest, GroupState, Rollout, StepGroups, UnusedPrefetch


def rollout(reward: float = 1.0, *, valid: bool = True, seconds: Mapping[str, float] | None = None) -> Rollout:
    return Rollout(
        "g", 0, "t", valid=valid, reward=reward, resolved=reward > 0, exit_status="submitted", verdict="resolved",
        segments=[TokenSegment([5, 6, 7], [0, 1, 1])], turns=4, commands=3, format_errors=1,
        seconds=seconds or {}, error_code="" if valid else "pod_evicted",
    )  # fmt: skip


def group(*rollouts: Rollout) -> GroupState:
    request = GroupRequest("g", "train", 0, len(rollouts), 1, 1.0)
    return GroupState(request, 0, rollouts=dict(enumerate(rollouts)))


def test_means_leave_out_what_infrastructure_ended() -> None:
    figures = rollout_metrics([rollout(1.0), rollout(-1.0), rollout(-1.0, valid=False)])
    assert figures["rollout/raw_reward"] == 0.0
    assert figures["rollout/resolved_rate"] == 0.5
    assert figures["sandbox/infra_failed_rate"] == pytest.approx(1 / 3)
    assert figures["sandbox/infra_failed/pod_evicted"] == 1


def test_absent_time_is_no_zero() -> None:
    times = {"total": 10.0, "model": 6.0, "environment": 2.0, "grading": 5.0, "exec": 0.1}
    figures = rollout_metrics([rollout(seconds=times), rollout()])
    assert figures["sandbox/exec_overhead_ratio"] == 0.01
    assert figures["agent/agent_run_time_mean"] == 10.0
    assert figures["agent/eval_time_mean"] == 5.0
    assert figures["agent/total_time_mean"] == 15.0
    assert figures["agent/eval_time_ratio"] == pytest.approx(1 / 3)
    assert figures["agent/time_per_turn"] == 2.5
    assert figures["agent/overhead_time_mean"] == 2.0


def test_shares_and_times_of_a_turn_are_means_of_the_episodes_own() -> None:
    nine_turns = replace(rollout(seconds={"total": 90.0, "model": 9.0, "environment": 45.0, "grading": 10.0}), turns=9)
    one_turn = replace(rollout(seconds={"total": 2.0, "model": 1.0, "environment": 0.5}), turns=1)
    no_turns = replace(rollout(seconds={"total": 3.0, "model": 0.0, "environment": 0.0}), turns=0)
    figures = rollout_metrics([nine_turns, one_turn, no_turns, rollout()])
    assert figures["agent/time_per_turn"] == pytest.approx((10.0 + 2.0) / 2)
    assert figures["agent/model_query_time_avg"] == pytest.approx((1.0 + 1.0) / 2)
    assert figures["agent/env_execution_time_avg"] == pytest.approx((5.0 + 0.5) / 2)
    assert figures["agent/model_time_ratio"] == pytest.approx((0.09 + 0.5 + 0.0) / 3)
    assert figures["agent/env_time_ratio"] == pytest.approx((0.45 + 0.25 + 0.0) / 3)
    assert figures["agent/eval_time_ratio"] == pytest.approx(0.1)
    assert figures["agent/overhead_time_mean"] == pytest.approx((36.0 + 0.5 + 3.0) / 3)
    assert figures["agent/total_time_max"] == 100.0


def test_episodes_with_suspicious_commands_are_counted_by_rule() -> None:
    suspicious = replace(rollout(), suspicions=frozenset({"network", "git-all"}))
    figures = rollout_metrics([suspicious, replace(rollout(), suspicions=frozenset({"network"})), rollout()])
    assert (figures["agent/suspicion/network"], figures["agent/suspicion/git-all"]) == (2, 1)


def test_sandboxes_that_commands_destroyed_are_counted_by_code() -> None:
    destroyed = replace(rollout(), exit_status="sandbox_destroyed", error_code="oom_killed")
    figures = rollout_metrics([destroyed, destroyed, rollout()])
    assert (figures["agent/sandbox_destroyed/oom_killed"], figures["sandbox/infra_failed_rate"]) == (2, 0)


def test_engine_request_metadata_is_read() -> None:
    usage = {"requests": 4.0, "prompt_tokens": 100.0, "cached_tokens": 75.0, "completion_tokens": 30.0, "latency": 8.0}
    figures = rollout_metrics([replace(rollout(), usage=usage), rollout()])
    assert (figures["perf/request/count"], figures["perf/request/latency_mean"]) == (4.0, 2.0)
    assert (figures["rollout/prefix_cache_hit_rate"], figures["rollout/avg_cached_tokens_per_sample"]) == (0.75, 75.0)
    assert not [name for name in figures if name.startswith(("perf/prefill", "perf/decode"))], "it was not measured"
    measured = usage | {"queue": 1.0, "first_token": 2.0}
    figures = rollout_metrics([replace(rollout(), usage=measured)])
    assert (figures["perf/request/queue_time_mean"], figures["perf/prefill/first_token_latency_mean"]) == (0.25, 0.5)
    assert figures["perf/decode/tokens_per_sec"] == 5.0


def test_exec_faults_of_lost_episodes_are_counted() -> None:
    faulty = replace(rollout(valid=False), timeouts=1, exec_retries=2, handshake_errors=3)
    figures = rollout_metrics([faulty, replace(rollout(), timeouts=1)])
    names = ("sandbox/exec_timeouts", "sandbox/exec_retries", "sandbox/ws_handshake_errors")
    assert [figures[name] for name in names] == [2, 2, 3]


def test_parts_of_a_sandboxs_start_add_up() -> None:
    known_pull = replace(rollout(), waits={"queue": 1.0, "schedule": 0.5, "pull": 2.5})
    unknown_pull = replace(rollout(), waits={"queue": 3.0, "schedule": 0.5, "start": 0.5})
    figures = rollout_metrics([known_pull, unknown_pull, rollout()])
    assert figures["sandbox/create_latency_mean"] == 4.0
    assert figures["sandbox/create_latency/queue_mean"] == 2.0
    assert figures["sandbox/create_latency/pull_mean"] == 2.5, "a pull that is not known is none of 0 s"
    assert not [name for name in rollout_metrics([rollout()]) if "create_latency" in name]


def test_losses_include_episodes_that_were_repeated() -> None:
    figures = lost_episode_metrics(8, {"pod_evicted": 2, "engine_lost": 1})
    assert figures["sandbox/infra_failed_rate"] == 3 / 8
    assert (figures["sandbox/episodes"], figures["sandbox/infra_failed/pod_evicted"]) == (8, 2)
    assert lost_episode_metrics(0, {})["sandbox/infra_failed_rate"] == 0


def sampled(*versions: str) -> Rollout:
    """An episode whose tokens were sampled by these weights."""
    spans = [(version, 1, 2) for version in versions]
    return replace(rollout(), segments=[TokenSegment([5, 6], [0, 1], weight_versions=spans)])


def test_staleness_is_that_of_the_oldest_weights() -> None:
    figures = staleness_metrics([sampled("3", "5"), sampled("5"), rollout()], 5)
    assert figures == {
        "rollout/weight_staleness/mean": 1.0,
        "rollout/weight_staleness/max": 2.0,
        "rollout/weight_staleness/count_0": 1.0,
        "rollout/weight_staleness/count_2": 1.0,
    }
    assert staleness_metrics([sampled("default")], 5) == {}


def test_steps_that_changed_no_weight_make_none_older() -> None:
    figures = staleness_metrics([sampled("3", "5"), sampled("5"), sampled("6")], 7, unchanged=[2, 4, 7])
    assert figures == {
        "rollout/weight_staleness/mean": 1.0,
        "rollout/weight_staleness/max": 2.0,
        "rollout/weight_staleness/count_0": 1.0,
        "rollout/weight_staleness/count_1": 1.0,
        "rollout/weight_staleness/count_2": 1.0,
    }


def test_reference_fixes_that_pass_are_a_rate() -> None:
    assert canary_metrics(3, 1) == {"sandbox/gold_canary_pass_rate": 0.75, "sandbox/gold_canaries": 4}
    assert canary_metrics(0, 0) == {}


def test_verdicts_without_contrast_are_a_share_of_the_resolved_ones() -> None:
    base = rollout()
    uncontrasted = replace(base, resolved=True, verdict="resolved", uncontrasted=True)
    contrasted = [replace(base, resolved=True, verdict="resolved"), replace(base, resolved=False, verdict="unresolved")]
    assert rollout_metrics([uncontrasted, *contrasted])["sandbox/uncontrasted_rate"] == 0.5
    assert "sandbox/uncontrasted_rate" not in rollout_metrics(contrasted[1:])


def test_every_metric_is_in_the_catalogue() -> None:
    complete = replace(
        rollout(seconds=dict.fromkeys(("total", "model", "environment", "grading", "exec", "wait"), 1.0)),
        usage=dict.fromkeys(("requests", "prompt_tokens", "cached_tokens", "latency", "queue", "first_token"), 1.0)
        | {"latency": 2.0},
        waits=dict.fromkeys(("queue", "schedule", "prepare", "pull", "start"), 1.0),
        step_scores={0: 1.0},
        segments=[TokenSegment([5, 6], [0, 1], weight_versions=[("1", 1, 2)])],
    )
    reported = rollout_metrics([complete, rollout(valid=False)])
    reported |= group_metrics(StepGroups((group(complete, complete),), (), {"stale": 1}, limit=3))
    reported |= staleness_metrics([complete], 1) | unused_prefetch_metrics(UnusedPrefetch()) | canary_metrics(1, 0)
    reported |= dict.fromkeys(TRAIN_NAMES.values(), 0.0)
    reported |= dict.fromkeys(f"train/{name}" for name in METRICS if name not in TRAIN_NAMES)
    assert {gauge_of(name).metric for name in reported} <= set(NAMES)


# Names of the trainer's and the sandboxes' figures that dashboards of this field know.
FIELD_FIGURES = {
    "rollout": "raw_reward rewards advantages returns response_len/mean response_len/median response_len/max"
    " response_len/min truncated_ratio repetition_frac prefix_cache_hit_rate zero_std/count_<reward>"
    " dynamic_filter/drop_<reason> sequences_per_episode weight_staleness/mean weight_staleness/count_<versions>",
    "perf": "rollout_time train_time step_time wait_time_ratio tokens_per_gpu_per_sec request/count"
    " request/latency_mean decode/tokens_per_sec prefill/first_token_latency_mean logprob_time"
    " forward_backward_time optimizer_time update_weights_time checkpoint_time mfu gpu_memory/forward_backward",
    "train": "loss pg_loss kl_loss ppo_kl pg_clipfrac entropy_loss grad_norm train_rollout_logprob_abs_diff",
    "sandbox": "queue_wait_mean create_latency_mean create_latency/schedule_mean create_latency/pull_mean"
    " create_latency/start_mean exec_latency_mean exec_retries exec_timeouts ws_handshake_errors infra_failed_rate"
    " infra_failed/<code> eval_latency eval_infra_failure gold_canary_pass_rate policy_blocked_rate"
    " patch_apply_fail_rate",
    "agent": "format_error_rate context_omitted_turns_mean exit_status/<status> patch_source/<source>"
    " sandbox_destroyed/<code>",
}


def test_figures_that_the_field_knows_are_in_the_catalogue() -> None:
    assert {f"{family}/{name}" for family, names in FIELD_FIGURES.items() for name in names.split()} <= set(NAMES)


# Names of the agent's figures that dashboards of this field know.
AGENT_FIGURES = [
    "turns_mean",
    "turns_sum",
    "tool_calls_mean",
    "tool_calls_sum",
    "model_query_time_sum_mean",
    "env_execution_time_sum_mean",
    "eval_time_mean",
    "agent_run_time_mean",
    "overhead_time_mean",
    "time_per_turn",
    "model_query_time_avg",
    "env_execution_time_avg",
    "model_time_ratio",
    "env_time_ratio",
    "eval_time_ratio",
    "total_time_mean",
    "total_time_max",
    "total_time_min",
]


def test_agent_metrics_match_the_catalogue() -> None:
    documented = {name.removeprefix("agent/") for name in NAMES if name.startswith("agent/")}
    seconds = dict.fromkeys(("total", "model", "environment", "grading", "exec"), 1.0)
    reported = {name.removeprefix("agent/") for name in rollout_metrics([rollout(seconds=seconds)]) if "agent/" in name}
    assert set(AGENT_FIGURES) <= documented & reported
    families = {name.partition("/")[0] for name in documented if "<" in name}
    additional = {"format_error_rate", "context_omitted_turns_mean"}
    assert {name for name in documented if "<" not in name} == {*AGENT_FIGURES, *additional}
    assert {name for name in reported if name.partition("/")[0] not in families} == {*AGENT_FIGURES, *additional}


def test_sandboxes_that_were_ready_are_hits() -> None:
    figures = rollout_metrics([rollout(seconds={"wait": wait}) for wait in (0.0, 0.04, 2.0, 4.0)])
    assert figures["sandbox/prefetch_hit_rate"] == 0.5
    assert (figures["sandbox/prefetch_hits"], figures["sandbox/prefetch_misses"]) == (2, 2)
    assert figures["sandbox/queue_wait_max"] == 4.0


def test_unused_prefetched_sandboxes_are_reported() -> None:
    figures = unused_prefetch_metrics(UnusedPrefetch(1, 30.0) + UnusedPrefetch(2, 12.5))
    assert figures == {"sandbox/prefetch_unused_groups": 3.0, "sandbox/prefetch_unused_pod_seconds": 42.5}


def test_turns_count_answers_without_a_command() -> None:
    figures = rollout_metrics([rollout()])
    assert (figures["agent/turns_mean"], figures["agent/tool_calls_mean"]) == (4, 3)
    assert figures["agent/format_error_rate"] == 0.25
    assert figures["rollout/response_len/mean"] == 2


def test_rate_is_the_mean_of_the_episodes_own() -> None:
    nine_turns = replace(rollout(seconds={"total": 10.0, "exec": 1.0}), turns=9, commands=8, format_errors=9)
    one_turn = replace(rollout(seconds={"total": 10.0, "exec": 0.5}), turns=1, commands=1, format_errors=0)
    no_turns = replace(rollout(seconds={"total": 1.0}), turns=0, commands=0, format_errors=0)
    figures = rollout_metrics([nine_turns, one_turn, no_turns])
    assert figures["agent/format_error_rate"] == 0.5
    assert figures["sandbox/exec_overhead_ratio"] == pytest.approx((0.1 + 0.05) / 2)
    assert figures["sandbox/exec_overhead_per_turn"] == pytest.approx(1.5 / 10), "a mean over the turns"
    assert figures["sandbox/exec_latency_mean"] == pytest.approx(1.5 / 9), "a mean over the commands"
    assert "agent/format_error_rate" not in rollout_metrics([no_turns])


def test_endings_count_what_infrastructure_ended_too() -> None:
    figures = rollout_metrics([rollout(), rollout(valid=False)])
    assert figures["agent/exit_status/submitted"] == 2
    assert figures["agent/turns_sum"] == 4


def test_steps_without_a_score_are_counted_and_left_out_of_the_mean() -> None:
    judged = replace(rollout(), step_scores={0: 1.0, 2: -0.5}, unscored_steps=2)
    figures = rollout_metrics([judged, rollout()])
    assert figures["judge/step_score_mean"] == 0.25
    assert figures["judge/unscored_rate"] == 0.5
    assert "judge/unscored_rate" not in rollout_metrics([rollout()])


def test_no_rollouts_give_no_figures() -> None:
    assert rollout_metrics([]) == {}
    assert "rollout/raw_reward" not in rollout_metrics([rollout(valid=False)])


def test_groups_without_spread_are_counted_by_reward() -> None:
    equal, mixed = group(rollout(), rollout(), rollout(-1.0, valid=False)), group(rollout(), rollout(-1.0))
    figures = group_metrics(StepGroups((mixed,), (equal,), {"equal_rewards": 2}, started=5, carried_over=2))
    assert figures == {
        "rollout/zero_std/count_1": 1,
        "rollout/dynamic_filter/drop_equal_rewards": 2,
        "rollout/groups_started": 5,
        "rollout/groups_trained": 1,
        "rollout/groups_carried_over": 2,
    }


def test_training_figures_have_the_fields_names() -> None:
    assert train_metrics({"loss": 1.0, "lr": 2.0}) == {"train/loss": 1.0, "train/lr": 2.0}
