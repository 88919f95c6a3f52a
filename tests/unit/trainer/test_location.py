"""Neighbouring ranks share a Pod, then a machine."""

from __future__ import annotations

from pathlib import Path

from swerl_trainer.location import Location, Place, machine_id


def test_ranks_of_pods_on_one_machine_are_neighbours() -> None:
    pods = {"pod-1": "machine-b", "pod-2": "machine-a", "pod-3": "machine-b"}
    places = [Place(machine, Location(pod, gpu)) for gpu in (1, 0) for pod, machine in pods.items()]
    order = [(place.machine, place.location.node, place.location.device) for place in sorted(places)]
    assert order == [
        ("machine-a", "pod-2", 0),
        ("machine-a", "pod-2", 1),
        ("machine-b", "pod-1", 0),
        ("machine-b", "pod-1", 1),
        ("machine-b", "pod-3", 0),
        ("machine-b", "pod-3", 1),
    ]


def test_machine_is_that_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("6a4e\n")
    assert machine_id(tmp_path / "boot_id") == "6a4e" and machine_id(tmp_path / "none") == ""
    assert machine_id() == machine_id() != ""
