"""A driver is dead only when it was seen not to renew."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_api.names import LEASE_DURATION_SECONDS, LEASE_RENEW_SECONDS
from swerl_operator.sandboxes.leases import LeaseState, LeaseTracker
from swerl_operator.sandboxes.settings import SandboxSettings
from swerl_operator.times import format_time

LEASE = ("ns", "job-1")
WALL = 1_000_000.0
CLEANUP_SECONDS = 60.0  # seconds after which nothing of a killed driver is left
DELETION = 8.0  # of them, for the group and its Pods


def body(renewed: float, duration: int = 60) -> dict[str, Any]:
    return {"spec": {"holderIdentity": "d", "renewTime": format_time(renewed), "leaseDurationSeconds": duration}}


@pytest.fixture
def leases() -> LeaseTracker:
    return LeaseTracker(SandboxSettings())


def observe(leases: LeaseTracker, renewed: float, now: float, **options: Any) -> LeaseState:
    leases.observe(LEASE, body(renewed, **options), now, WALL + now)
    return leases.state(LEASE)


def test_renewed_lease_is_held(leases: LeaseTracker) -> None:
    assert leases.state(LEASE) is LeaseState.UNKNOWN
    for now in range(0, 300, 5):
        assert observe(leases, WALL + now - now % 10, float(now)) is LeaseState.HELD


def test_lease_unchanged_for_its_duration_expires(leases: LeaseTracker) -> None:
    states = [observe(leases, WALL, float(now)) for now in range(0, 65, 5)]
    assert states[:12] == [LeaseState.HELD] * 12
    assert states[12] is LeaseState.EXPIRED


def test_driver_killed_after_a_renewal_is_detected_within_a_minute(leases: LeaseTracker) -> None:
    poll = SandboxSettings().lease_poll
    now = poll - 0.1  # after the renewal, which no poll came sooner to see
    while observe(leases, WALL, now, duration=LEASE_DURATION_SECONDS) is LeaseState.HELD:
        now += poll
    assert now < CLEANUP_SECONDS - DELETION
    assert SandboxSettings().missing_lease_timeout + poll < CLEANUP_SECONDS - DELETION / 2, (
        "it may have died before it made its Lease"
    )


def test_failed_renewals_within_the_duration_are_tolerated() -> None:
    assert 4 * LEASE_RENEW_SECONDS <= LEASE_DURATION_SECONDS


@pytest.mark.parametrize("instant", [59.9, 60.0, 60.1])
@pytest.mark.parametrize("read_before", [False, True])
def test_renewal_at_the_instant_of_expiry_extends_or_is_too_late(
    leases: LeaseTracker, instant: float, read_before: bool
) -> None:
    for now in range(0, 60, 5):
        observe(leases, WALL, float(now))
    missed = read_before and observe(leases, WALL, instant) is LeaseState.EXPIRED
    assert missed == (read_before and instant >= 60)
    assert observe(leases, WALL + instant, instant + 0.05) is LeaseState.HELD
    later = [observe(leases, WALL + instant, instant + 0.05 + seconds) for seconds in range(5, 65, 5)]
    assert later == [LeaseState.HELD] * 11 + [LeaseState.EXPIRED]


def test_long_expired_lease_gets_a_short_grace_period(leases: LeaseTracker) -> None:
    assert observe(leases, WALL - 3600, 0.0) is LeaseState.HELD
    assert observe(leases, WALL - 3600, 10.0) is LeaseState.HELD
    assert observe(leases, WALL - 3600, 15.0) is LeaseState.EXPIRED


def test_driver_with_a_clock_one_hour_behind_is_healthy(leases: LeaseTracker) -> None:
    for now in range(0, 300, 5):
        assert observe(leases, WALL - 3600 + now - now % 10, float(now)) is LeaseState.HELD


def test_driver_whose_clock_is_behind_has_its_whole_duration(leases: LeaseTracker) -> None:
    observe(leases, WALL - 3600, 0.0)
    states = [observe(leases, WALL - 3590, float(now)) for now in range(5, 70, 5)]
    assert states == [LeaseState.HELD] * 12 + [LeaseState.EXPIRED]


def test_outage_of_the_api_server_does_not_expire_leases(leases: LeaseTracker) -> None:
    observe(leases, WALL, 0.0)
    assert observe(leases, WALL, 90.0) is LeaseState.HELD
    assert observe(leases, WALL, 95.0) is LeaseState.HELD
    assert observe(leases, WALL + 99, 100.0) is LeaseState.HELD


def test_short_lease_is_read_often(leases: LeaseTracker) -> None:
    leases.track({LEASE})
    assert leases.to_read(0.0) == [LEASE]
    observe(leases, WALL, 0.0, duration=3)
    assert leases.to_read(0.9) == []
    assert leases.to_read(1.0) == [LEASE]
    leases.missing(LEASE, 1.0)
    assert leases.state(LEASE) is LeaseState.MISSING
    leases.track(set())
    assert leases.to_read(100.0) == []
