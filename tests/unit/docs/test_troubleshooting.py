"""The reasons that the page explains exist, and none that keeps a job from training is left out."""

from __future__ import annotations

import re

from swerl_agent.jobs.reasons import UNSEEN
from swerl_api.conditions import EvalReason, ImageSetReason, JobReason, SandboxReason

from .pages import CODE, ROOT, prose

PAGE = prose((ROOT / "docs" / "troubleshooting.md").read_text())
OF_THE_DRIVER = {"RolloutsFailed", "TaskImagesMissing"}
WORDS = {"Starting", "Blocked", "Learning"}  # phases and conditions that the page names


def values(*classes: type) -> set[str]:
    return {value for each in classes for name, value in vars(each).items() if name.isupper()}


def test_reasons_exist() -> None:
    first_cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    named = {code for cell in first_cells for code in CODE.findall(cell) if re.fullmatch(r"([A-Z][a-zA-Z]+){1,}", code)}
    known = values(JobReason, EvalReason, SandboxReason, ImageSetReason) | OF_THE_DRIVER | WORDS | {UNSEEN}
    assert len(named) > 25 and named - known == set()


def test_reasons_that_keep_a_job_from_training_are_explained() -> None:
    blocking = {
        JobReason.INVALID_SPEC, JobReason.KUBERAY_MISSING, JobReason.VOLUME_CLAIM_MISSING, JobReason.SOURCE_MISSING,
        JobReason.CONFIG_MAP_MISSING, JobReason.IMAGE_SET_MISSING, JobReason.WAITING_FOR_IMAGES,
        JobReason.RUNTIME_CLASS_MISSING, JobReason.ROLE_MISSING, JobReason.HOST_PATH_REFUSED, JobReason.FOREIGN_OBJECT,
        JobReason.INSUFFICIENT_RESOURCES, JobReason.LAYOUT_REFUSED, JobReason.IMAGE_PULL_FAILED,
        JobReason.PREFLIGHT_FAILED, JobReason.POD_UNSCHEDULABLE, JobReason.POD_REFUSED, JobReason.WAITING_FOR_QUEUE,
        JobReason.HEAD_LOST, JobReason.DRIVER_FAILED, JobReason.RETRIES_EXHAUSTED, JobReason.DEADLINE_EXCEEDED,
        JobReason.NO_SIGNAL, JobReason.VOLUME_NOT_SHARED, JobReason.POD_DISRUPTED,
    }  # fmt: skip
    assert {reason for reason in blocking if f"`{reason}`" not in PAGE} == set()
