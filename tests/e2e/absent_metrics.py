"""Metrics that a job of these tests need not have."""

from __future__ import annotations

from swerl_trainer.metrics.catalogue import NAMES

# Of a GPU, of an event that need not happen, or of evaluations, which these jobs do not make.
OPTIONAL_METRICS = {
    f"swerl_{name}"
    for name in [
        "agent_suspicion",
        "eval_resolved_rate",
        "perf_mfu",
        "rollout_dynamic_filter_drop",
        "rollout_zero_std_count",
        "sandbox_create_latency_pull_mean",
        "sandbox_infra_failed",
        "sandbox_uncontrasted_rate",
        *(name.replace("/", "_") for name in NAMES if name.startswith("perf/gpu_memory/")),
    ]
}
