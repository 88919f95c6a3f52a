"""Figures of one episode."""

from __future__ import annotations

import pytest
from swerl_agent.episode import Episode, agent_metrics, repeats_itself


def test_times_of_an_episode_and_their_shares() -> None:
    episode = Episode("t", "g", 0, turns=4, commands=[{}] * 3)
    episode.timings = {"total": 10.0, "model": 6.0, "environment": 2.0, "exec": 0.5}
    metrics = agent_metrics(episode, eval_time=10.0)
    assert (metrics["turns"], metrics["tool_calls"]) == (4, 3)
    assert (metrics["agent_run_time"], metrics["eval_time"], metrics["total_time"]) == (10.0, 10.0, 20.0)
    assert (metrics["time_per_turn"], metrics["model_query_time_avg"], metrics["env_execution_time_avg"]) == (
        2.5,
        1.5,
        0.5,
    )
    assert (metrics["model_time_ratio"], metrics["env_time_ratio"], metrics["eval_time_ratio"]) == (0.3, 0.1, 0.5)
    assert (metrics["exec_overhead_time_sum"], metrics["exec_overhead_ratio"]) == (0.5, 0.05)
    assert metrics["overhead_time"] == pytest.approx(2.0)


def test_unmeasured_figures_are_absent() -> None:
    assert agent_metrics(Episode("t", "g", 0)) == {"turns": 0, "tool_calls": 0}
    ungraded = Episode("t", "g", 0, timings={"total": 1.0})
    assert not {"eval_time", "eval_time_ratio", "time_per_turn"} & agent_metrics(ungraded).keys()


@pytest.mark.parametrize(
    ("answers", "loops"),
    [
        (["wait, " * 2_000], True),
        (["wait, " * 1_000, "wait, " * 1_000], True),
        (["wait, " * 100], False),
        (["".join(f"{n * n:x} " for n in range(4_000))], False),
        (["wait, " * 2_000, "".join(f"{n * n:x} " for n in range(4_000))], False),
        (["\ud800" * 12_000], True),
    ],
)
def test_model_that_ends_in_a_loop_is_found(answers: list[str], loops: bool) -> None:
    episode = Episode("t", "g", 0, messages=[{"role": "assistant", "content": text} for text in answers])
    assert repeats_itself(episode) is loops


def test_repeated_output_of_a_command_is_no_loop_of_the_model() -> None:
    assert not repeats_itself(Episode("t", "g", 0, messages=[{"role": "user", "content": "x" * 50_000}]))
