"""Series of a healthy job over three hours, and for each alert the series that differ when it must fire.

Values are in promtool's notation: `0+3x180` begins at 0 and rises by 3 each minute, 180 times.
"""

from __future__ import annotations

JOB = 'namespace="team-a", swerljob="demo"'
STEP_ENDS = "0+60x180"  # a step a minute; promtool's clock starts at 0
CONSTANT = "{}+0x180".format


def job(metric: str, labels: str = "") -> str:
    """A series of the job `demo`."""
    return f"{metric}{{{JOB}{labels and ', '}{labels}}}"


RECONCILES = 'swerl_operator_reconciles_total{{kind="SweSandbox", outcome="{}"}}'.format
REQUESTS = 'swerl_operator_api_requests_total{{verb="GET", code="{}"}}'.format
WAITS = 'swerl_operator_queue_wait_seconds_bucket{{kind="SweSandbox", le="{}"}}'.format
STARTS = 'swerl_sandbox_start_seconds_bucket{{le="{}"}}'.format
CHECKS = 'swerl_sandbox_isolation_checks_total{outcome="reachable"}'
EXPIRED = 'swerl_sandbox_groups_ended_total{reason="LeaseExpired"}'
BLOCKED, FAILED = (f'swerl_operator_jobs{{phase="{phase}"}}' for phase in ("Blocked", "Failed"))
LAST_STEP = job("swerl_driver_last_step_timestamp_seconds")
LOST = job("swerl_driver_episodes_total", 'purpose="train", outcome="infrastructure"')
EVALUATED, EVALUATION_LOST = (
    job("swerl_driver_episodes_total", f'purpose="evaluation", outcome="{outcome}"')
    for outcome in ("resolved", "infrastructure")
)
UNGRADED = job("swerl_driver_gradings_total", 'verdict="infra_error", cached="false"')

HEALTHY = {
    "swerl_operator_leader": CONSTANT(1),
    RECONCILES("ok"): "0+100x180",
    RECONCILES("error"): "0+1x180",
    REQUESTS("2xx"): "0+100x180",
    REQUESTS("5xx"): "0+1x180",
    WAITS("1"): "0+100x180",
    WAITS("10"): "0+100x180",
    WAITS("+Inf"): "0+100x180",
    STARTS("5"): "0+10x180",
    STARTS("300"): "0+10x180",
    STARTS("+Inf"): "0+10x180",
    CHECKS: CONSTANT(0),
    EXPIRED: CONSTANT(0),
    "swerl_sandbox_oldest_wait_seconds": CONSTANT(20),
    BLOCKED: CONSTANT(0),
    FAILED: CONSTANT(1),
    LAST_STEP: STEP_ENDS,
    job("swerl_perf_step_time"): CONSTANT(60),
    job("swerl_driver_episodes_total", 'purpose="train", outcome="resolved"'): "0+10x180",
    LOST: CONSTANT(1),
    EVALUATED: CONSTANT(8),
    EVALUATION_LOST: CONSTANT(0),
    job("swerl_driver_gradings_total", 'verdict="resolved", cached="false"'): "0+10x180",
    UNGRADED: CONSTANT(1),
    job("swerl_sandbox_gold_canary_pass_rate"): CONSTANT(1),
    job("swerl_train_new_updates"): CONSTANT(1),
    job("swerl_train_skipped_updates"): CONSTANT(0),
    job("swerl_train_loss"): CONSTANT(0.1),
    job("swerl_train_mismatch_kl"): CONSTANT(0.001),
    job("swerl_rollout_weight_mismatches"): CONSTANT(1),
    job("swerl_train_stalls"): CONSTANT(1),
}
CASES: dict[str, dict[str, str]] = {
    "SweRLOperatorAbsent": {"swerl_operator_leader": CONSTANT(0)},
    "SweRLReconcileErrors": {RECONCILES("error"): "0+100x180"},
    "SweRLQueueBacklog": {WAITS("1"): CONSTANT(0)},
    "SweRLApiServerErrors": {REQUESTS("5xx"): "0+20x180"},
    "SweRLSandboxReachable": {CHECKS: "0+1x180"},
    "SweRLSandboxesWait": {"swerl_sandbox_oldest_wait_seconds": "0+60x180"},
    "SweRLSandboxesStartSlowly": {STARTS("5"): CONSTANT(0)},
    "SweRLLeasesExpire": {EXPIRED: "0+0x175 1+1x4"},
    "SweRLJobBlocked": {BLOCKED: CONSTANT(1)},
    "SweRLJobFailed": {FAILED: "1+0x175 2+0x4"},
    "SweRLJobStalled": {LAST_STEP: CONSTANT(0), EVALUATION_LOST: "0+0x178 1+1x2"},
    "SweRLEpisodesLost": {LOST: "0+5x180"},
    "SweRLGradingsFail": {UNGRADED: "0+5x180"},
    "SweRLGoldCanaryFails": {job("swerl_sandbox_gold_canary_pass_rate"): CONSTANT(0.5)},
    "SweRLNoSignal": {job("swerl_train_new_updates"): CONSTANT(0)},
    "SweRLUpdatesSkipped": {job("swerl_train_loss"): "NaN+0x180"},
    "SweRLEnginesDiverge": {job("swerl_train_mismatch_kl"): CONSTANT(0.5)},
    "SweRLWeightMismatch": {job("swerl_rollout_weight_mismatches"): "1+0x175 2+0x4"},
    "SweRLRanksStall": {job("swerl_train_stalls"): "1+0x175 2+0x4"},
}
QUIET = {  # cases in which no alert fires
    "a healthy job": {},
    "a first step that waits for an evaluation": {
        LAST_STEP: CONSTANT(0),
        job("swerl_perf_step_time"): "",
        EVALUATED: "0+1x180",
    },
}
