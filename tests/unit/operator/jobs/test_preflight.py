"""How the decision uses the preflight's result."""

from __future__ import annotations

from datetime import timedelta

from swerl_api import find_condition
from swerl_operator.checks.preflight import Preflight
from swerl_operator.jobs.decide import JobAction
from swerl_operator.problem import Problem

from tests.unit.operator.conftest import Spec

from .test_decide import NOW, condition, status, step


def test_preflight_precedes_the_cluster(spec: Spec) -> None:
    decision = step(spec, status(), prerequisite_problems=[])
    assert decision.actions == (JobAction.ENSURE_ACCOUNT, JobAction.CREATE_PREFLIGHT)
    waiting = step(
        spec, status(), prerequisite_problems=[], preflight=Preflight("waiting", Problem("ImagePullFailed", "x"))
    )
    assert waiting.actions == () and waiting.builder.status.phase == "Blocked"
    outdated = step(spec, status(), prerequisite_problems=[], preflight=Preflight("outdated"))
    assert outdated.actions == (JobAction.DELETE_PREFLIGHT,)
    passed = step(spec, status(), prerequisite_problems=[], preflight=Preflight("passed"))
    assert JobAction.CREATE_CLUSTER in passed.actions
    assert condition(passed, "ImagesReady") == ("True", "ImagesPulled")


def test_passed_preflight_stays_while_the_model_does_not_fit(spec: Spec) -> None:
    problem = Problem("LayoutRefused", "attention heads 4 cannot be divided over tensorParallel 3")
    passed = Preflight("passed", message="sizes")
    decision = step(spec, status(), prerequisite_problems=[], capacity_problem=problem, preflight=passed)
    assert decision.actions == ()
    assert condition(decision, "Validated") == ("False", "LayoutRefused")
    assert condition(decision, "ImagesReady") == ("True", "ImagesPulled")
    assert (decision.builder.status.phase, decision.builder.status.failures) == ("Blocked", status().failures)


def test_failed_preflight_stays_a_while_with_its_reason(spec: Spec) -> None:
    problem = Problem("DownloadFailed", "no such repository")
    for seconds, actions in ((10, ()), (20, (JobAction.DELETE_PREFLIGHT,))):
        ended = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        decision = step(spec, status(), prerequisite_problems=[], preflight=Preflight("failed", problem, ended))
        assert decision.actions == actions
        assert decision.builder.status.phase == "Blocked"
        assert condition(decision, "ImagesReady") == ("False", "DownloadFailed")
    unknown = step(spec, status(), prerequisite_problems=[], preflight=Preflight("failed", problem))
    assert unknown.actions == (JobAction.DELETE_PREFLIGHT,)


def test_preflight_says_that_it_downloads_models(spec: Spec) -> None:
    for model, words in (("Qwen/Qwen3-4B", ", downloading models"), (None, "")):
        changed = spec | ({"model": {"source": {"huggingFace": {"id": model}}}} if model else {})
        decision = step(changed, status(), prerequisite_problems=[])
        found = find_condition(decision.builder.status.conditions, "ImagesReady")
        assert found is not None and found.message == "pulling images, looking for sources" + words
