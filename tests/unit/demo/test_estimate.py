"""The demo's estimate of how long it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster import build, targets
from demo.estimate import describe, estimate_minutes
from demo.steps import Steps


def test_what_is_built_takes_no_time(tmp_path: Path) -> None:
    bare = estimate_minutes(tmp_path, local=True, steps=22, samples=2)
    for name in targets.DEFAULT_TARGETS:
        build.folder(tmp_path, name).mkdir(parents=True)
    built = estimate_minutes(tmp_path, local=True, steps=22, samples=2)
    assert bare["cluster"] > 5 > 1 > built["cluster"]
    assert bare["training"] == built["training"]
    assert estimate_minutes(tmp_path, local=False, steps=1, samples=1)["cluster"] == 0


def test_steps_say_how_long_the_rest_takes(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps({"cluster": 12.0, "images": 7.0, "operator": 0.5, "training": 14.0})
    assert describe(steps.estimate) == "about 34 min on two cores (cluster 12, images 7, training 14)"
    for name in ("images", "namespace"):
        with steps.step(name, name):
            pass
    output = capsys.readouterr().out
    assert "• images   (about 22 min to the end of the demo)\n" in output
    assert "• namespace\n" in output
