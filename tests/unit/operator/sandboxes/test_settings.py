"""What the operator is told about sandboxes on its command line."""

from __future__ import annotations

import pytest
from swerl_operator.context import Settings
from swerl_operator.errors import OperatorError
from swerl_operator.sandboxes.settings import SandboxSettings


def test_nothing_said_leaves_the_pods_as_the_cluster_makes_them() -> None:
    assert SandboxSettings.from_options(Settings()) == SandboxSettings()


def test_what_is_said_reaches_the_pods() -> None:
    asked = Settings(
        sandbox_limit=9,
        sandbox_host_users="false",
        sandbox_priority_class="low",
        sandbox_pod_overrides='{"schedulerName": "mine"}',
    )
    settings = SandboxSettings.from_options(asked)
    assert (settings.max_concurrent, settings.host_users, settings.priority_class_name) == (9, False, "low")
    assert settings.pod_overrides == {"schedulerName": "mine"}


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        (Settings(sandbox_host_users="maybe"), "--sandbox-host-users=maybe"),
        (Settings(sandbox_pod_overrides="{"), "--sandbox-pod-overrides"),
        (Settings(sandbox_pod_overrides="[1]"), "--sandbox-pod-overrides"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_option(asked: Settings, option: str) -> None:
    with pytest.raises(OperatorError, match=option):
        SandboxSettings.from_options(asked)
