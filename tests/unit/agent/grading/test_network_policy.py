"""Making the NetworkPolicy of grading Pods over an API server that is away, or loses its answers."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.grading.network_policy import GradingError, NetworkPolicy
from swerl_kube import Conflict, Forbidden, KubeError, NotFound, ServerError, Throttled, Unreachable, WriteRetry

QUICK = WriteRetry(window=0.05, first_pause=0.001)
RESET = Unreachable("POST: connection reset by peer")
EXISTS = Conflict("POST", 409, "AlreadyExists", "p")


class Server:
    """Answers each creation with the next of `answers`: an error, or None for success."""

    def __init__(self, *answers: KubeError | None) -> None:
        self.answers = list(answers)

    async def create(self, resource: str, body: dict[str, Any], *, namespace: str) -> dict[str, Any]:
        if (answer := self.answers.pop(0)) is not None:
            raise answer
        return body


async def close_off(server: Server) -> None:
    await NetworkPolicy(server, "ns", {"metadata": {"name": "p"}}).close_off(QUICK)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answers",
    [(RESET, ServerError("503"), Throttled("429"), None), (RESET, EXISTS)],
    ids=["server comes back", "first answer was lost"],
)
async def test_policy_is_made_through_an_outage(answers: tuple[KubeError | None, ...]) -> None:
    server = Server(*answers)
    await close_off(server)
    assert not server.answers


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (Forbidden("POST", 403, "Forbidden", "no"), "let this account create"),
        (NotFound("POST", 404, "NotFound", "no"), "create it or choose another"),
    ],
)
async def test_refused_policy_is_an_error_with_a_remedy(refusal: KubeError, remedy: str) -> None:
    server = Server(refusal, None)
    with pytest.raises(GradingError, match=remedy):
        await close_off(server)
    assert server.answers == [None]


async def test_longer_outage_is_an_error() -> None:
    with pytest.raises(GradingError, match="connection reset"):
        await close_off(Server(*[RESET] * 1000))
