"""The command-line options for sandboxes."""

from __future__ import annotations

import pytest
from swerl_operator.context import Settings
from swerl_operator.errors import OperatorError
from swerl_operator.sandboxes.settings import SandboxSettings


def test_defaults_leave_the_pods_to_the_cluster() -> None:
    assert SandboxSettings.from_options(Settings()) == SandboxSettings()


def test_options_reach_the_settings() -> None:
    from_options = Settings(
        sandbox_limit=9,
        sandbox_host_users="false",
        sandbox_priority_class="low",
        sandbox_pod_overrides='{"schedulerName": "mine"}',
        sandbox_internet_name_servers="10.0.0.53, fd00::53",
        sandbox_internet_except="203.0.113.0/24",
    )
    settings = SandboxSettings.from_options(from_options)
    assert (settings.max_concurrent, settings.host_users, settings.priority_class_name) == (9, False, "low")
    assert settings.pod_overrides == {"schedulerName": "mine"}
    assert settings.internet_name_servers == ("10.0.0.53", "fd00::53")
    assert settings.internet_except == ("203.0.113.0/24",)


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        (Settings(sandbox_host_users="maybe"), "--sandbox-host-users=maybe"),
        (Settings(sandbox_pod_overrides="{"), "--sandbox-pod-overrides"),
        (Settings(sandbox_pod_overrides="[1]"), "--sandbox-pod-overrides"),
        (Settings(sandbox_internet_name_servers="dns.example"), "--sandbox-internet-name-servers: 'dns.example'"),
        (Settings(sandbox_internet_name_servers="::1,::2,::3,::4"), "at most 3 name servers, not 4"),
        (Settings(sandbox_internet_except="203.0.113.1/24"), "--sandbox-internet-except: '203.0.113.1/24'"),
        (Settings(sandbox_internet_except="0.0.0.0/0"), "is too large"),
    ],
)
def test_invalid_option_is_reported_by_name(settings: Settings, option: str) -> None:
    with pytest.raises(OperatorError, match=option):
        SandboxSettings.from_options(settings)
