"""What a trajectory's figures are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import api_writes
from tests.bench.trajectories.commands import MIX, PAGE, PRINT_PAGE, check, commands
from tests.bench.trajectories.ray_pod import ray_pod
from tests.bench.trajectories.results import Load, Trajectories, table
from tests.bench.trajectories.way import RESOURCES, bare_pod
from tests.bench.trajectory_bench import MANY, figures

NAMES = ("ours", "ours-prefetched", "bare-pods", "ray-actor", "ray-runtime")


def found(**seconds: float) -> dict[tuple[Load, str], Trajectories]:
    """Trajectories of 50 commands, one at a time and all at once, that take these seconds; others take 9."""
    results = {}
    for load in (Load(50, 1), Load(50, MANY)):
        for name in NAMES:
            one = seconds.get(name.replace("-", "_"), 9.0)
            results[load, name] = Trajectories(load, [one] * load.at_once, wall=one, machine=one * load.at_once)
    return results


def test_commands_repeat_in_order() -> None:
    assert commands(3) == list(MIX[:3])
    assert commands(len(MIX) + 1)[-1] == MIX[0]


@pytest.mark.parametrize(("exit_code", "length"), [(1, PAGE), (None, PAGE), (0, PAGE - 1)])
def test_failed_or_cut_command_ends_the_benchmark(exit_code: int | None, length: int) -> None:
    with pytest.raises(RuntimeError, match=f"ended with {exit_code} and {length} bytes"):
        check(PRINT_PAGE, exit_code, length)


def test_output_of_other_commands_has_any_length() -> None:
    check("true", 0, 0)
    with pytest.raises(RuntimeError, match="`true` ended with 1"):
        check("true", 1, 0)


def test_median_rate_and_costs_are_of_all_trajectories() -> None:
    one = Trajectories(Load(50, 2), [1.0, 3.0], wall=4.0, writes=6)
    assert (one.median, one.rate, one.each(one.writes)) == (2.0, 25.0, 3.0)


def test_table_has_a_line_for_each_way_and_load() -> None:
    header, first, *others = table(found(ours=1.5)).splitlines()
    assert header.split()[:3] == ["commands", "at_once", "way"]
    assert first.split()[:4] == ["50", "1", "ours", "1.50"]
    assert len(others) == 2 * len(NAMES) - 1


def test_faster_of_ray_s_two_ways_is_the_peer() -> None:
    by_name = {
        figure.name: figure for figure in figures(found(ours=3.0, bare_pods=8.0, ray_actor=5.0, ray_runtime=4.0))
    }
    assert by_name["trajectory_50_against_ray_s"].peer == 4.0
    assert by_name["trajectory_50_16_at_once_against_ray_s"].peer == 4.0
    assert not by_name["trajectory_50_s"].meets_goal
    assert by_name["trajectory_50_s"].measured == 3 / 8


def test_bare_pod_is_the_sandbox_s_without_owner_and_labels() -> None:
    pod = bare_pod("image:1", "space", "pod-1")
    [container] = pod["spec"]["containers"]
    assert pod["metadata"] == {"name": "pod-1"}
    assert container["image"] == "image:1"
    assert container["resources"] == RESOURCES


def test_ray_pod_is_not_privileged() -> None:
    [container] = ray_pod("image:1", Path("/files"))["spec"]["containers"]
    assert "privileged" not in container["securityContext"]


PAGE_OF_METRICS = """\
apiserver_request_total{code="201",group="",resource="pods",subresource="",verb="POST"} 3
apiserver_request_total{code="101",group="",resource="pods",subresource="exec",verb="CONNECT"} 7
apiserver_request_total{code="500",group="",resource="pods",subresource="exec",verb="CONNECT"} 1
apiserver_request_total{code="200",group="swerl.dev",resource="swesandboxes",subresource="status",verb="PUT"} 2
apiserver_request_total{code="200",group="",resource="pods",subresource="status",verb="PATCH"} 9
"""


def test_exec_streams_and_charged_writes_are_counted_apart() -> None:
    assert api_writes.counted_execs(PAGE_OF_METRICS) == 8
    writes = api_writes.counted_writes(PAGE_OF_METRICS)
    assert writes == {("POST", "pods"): 3, ("PUT", "swesandboxes/status"): 2}
