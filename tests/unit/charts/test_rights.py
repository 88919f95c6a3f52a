"""Accounts of the chart have the rights that their programs use, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from .api_calls import UNNAMED, ApiCall, Right, api_calls, rights_of
from .templates import manifests

OPERATOR = "operator/swerl_operator"
OF_LEADER = {"swerl_operator/ray/credentials.py:_read", "swerl_operator/ray/credentials.py:_write"}
DRIVER = [f"agent/swerl_agent/{name}" for name in ("sandbox", "grading", "evaluation", "episode")]
DRIVER += [f"trainer/swerl_trainer/driver/{name}.py" for name in ("attempt", "event_poster", "status")]
DRIVER += ["crds/swerl_kube/refusals.py"]
BINDS = {("bind", "clusterroles")}  # asked for when it creates a RoleBinding


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All that the chart can render, of an operator that serves all namespaces."""
    return manifests(tmp_path_factory.mktemp("chart"), "console: {enabled: true, claim: runs}")


def granted(role: dict[str, Any]) -> set[Right]:
    """Verb and resource of each rule; with its group, where another group has a resource of the name."""
    return {
        (verb, f"{resource}.{group}" if group == "metrics.k8s.io" else resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def is_of_leader(call: ApiCall) -> bool:
    """Whether it concerns the operator's own Lease and key, which have a Role of their own."""
    return call.where.startswith("swerl_operator/leader.py:") or call.where in OF_LEADER


@pytest.fixture(scope="module")
def operator_calls() -> list[ApiCall]:
    return [call for call in api_calls(OPERATOR) if not call.where.startswith("swerl_operator/crds.py:")]


def test_operator_has_the_rights_of_its_calls_and_no_others(
    chart: dict[str, Any], operator_calls: list[ApiCall]
) -> None:
    used = rights_of([call for call in operator_calls if not is_of_leader(call)])
    assert ("create", "rolebindings") in used
    allowed = granted(chart["ClusterRole/demo-operator"]) | granted(chart["Role/demo-driver-api-addresses"])
    assert allowed == used | BINDS


def test_operator_uses_each_right_on_its_lease_and_key(chart: dict[str, Any], operator_calls: list[ApiCall]) -> None:
    used = rights_of([call for call in operator_calls if is_of_leader(call)])
    unused = granted(chart["Role/demo-operator-leader"]) - used
    assert not unused
    assert used - granted(chart["Role/demo-operator-leader"]) == {("create", "leases"), ("create", "secrets")}, (
        "the chart creates both objects; only an operator without the chart does"
    )


def test_driver_uses_each_of_its_rights(chart: dict[str, Any]) -> None:
    used = rights_of([call for folder in DRIVER for call in api_calls(folder)])
    allowed = granted(chart["ClusterRole/demo-driver"]) | granted(chart["Role/demo-driver-api-addresses"])
    assert allowed == used


def test_console_uses_each_of_its_rights(chart: dict[str, Any]) -> None:
    used = rights_of(api_calls("agent/swerl_agent/console/visitors.py"))
    assert granted(chart["ClusterRole/demo-console"]) == used


def test_upgrade_of_crds_uses_each_of_its_rights(chart: dict[str, Any]) -> None:
    assert granted(chart["ClusterRole/demo-crd-upgrade"]) == rights_of(api_calls(f"{OPERATOR}/crds.py"))


def test_no_call_is_described_that_the_code_lacks() -> None:
    folders = [OPERATOR, *DRIVER, "agent/swerl_agent/console/visitors.py"]
    unnamed = {call.where for folder in folders for call in api_calls(folder) if not call.is_named}
    assert UNNAMED.keys() == unnamed
