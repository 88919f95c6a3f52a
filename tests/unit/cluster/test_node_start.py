"""The kubelet ends where the container runtime is not up yet; it is started again, as a service manager would."""

from __future__ import annotations

from typing import Any

import pytest

from cluster import lifecycle
from cluster.errors import DaemonDied

CLUSTER: Any = object()


class Node:
    """A node whose daemon `name` ends `deaths` times before the node is Ready."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, deaths: int) -> None:
        self.name, self.deaths, self.starts = name, deaths, 0
        monkeypatch.setattr(lifecycle, "_ensure", self.ensure)
        monkeypatch.setattr(lifecycle, "_wait", self.wait)

    def ensure(self, *names: Any) -> None:
        self.starts += 1

    def wait(self, *arguments: Any) -> None:
        if self.deaths:
            self.deaths -= 1
            raise DaemonDied(self.name, f"{self.name} died")


def test_kubelet_that_ends_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch, "kubelet", deaths=2)
    lifecycle._start_node(CLUSTER, pause=0.0)
    assert node.starts == 3


@pytest.mark.parametrize(("name", "deaths", "starts"), [("kubelet", 100, 5), ("scheduler", 1, 1)])
def test_kubelet_that_always_ends_and_another_daemon_are_errors(
    monkeypatch: pytest.MonkeyPatch, name: str, deaths: int, starts: int
) -> None:
    node = Node(monkeypatch, name, deaths)
    with pytest.raises(DaemonDied, match=name):
        lifecycle._start_node(CLUSTER, pause=0.0)
    assert node.starts == starts
