"""The example jobs train public models: they start in a namespace without a Secret for Hugging Face."""

from __future__ import annotations

import yaml

from .pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("**/swerljob*.yaml"))


def test_example_jobs_need_no_secret() -> None:
    jobs = {path.name: yaml.safe_load(path.read_text())["spec"] for path in EXAMPLES if "invalid" not in path.parts}
    assert len(jobs) > 10
    assert [name for name, spec in jobs.items() if spec["trainer"].get("envFromSecrets")] == []
