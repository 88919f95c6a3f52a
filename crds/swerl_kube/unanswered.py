"""Says once that an API server does not answer, while its clients keep trying."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

logger = logging.getLogger(__name__)

UNANSWERED_SECONDS = 5.0  # seconds without any answer before the log says so


class UnansweredNotice:
    """Of one client. Clients of one server share the line: it comes again only after an answer."""

    _reported: ClassVar[set[str]] = set()

    def __init__(self, server: str, seconds: float = UNANSWERED_SECONDS) -> None:
        self._server, self._seconds = server, seconds
        self._timer: asyncio.TimerHandle | None = None

    def request_sent(self, request: str) -> None:
        """Start to wait for an answer, unless a request waits already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._report, request)

    def answered(self) -> None:
        """The server answered one of the requests."""
        self.stop()
        self._reported.discard(self._server)

    def stop(self) -> None:
        """The client is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self, request: str) -> None:
        if self._server not in self._reported:
            self._reported.add(self._server)
            logger.warning(
                "no answer from the API server %s for %.0f s (%s); still trying: check the address, the network and"
                " the kubeconfig's context",
                self._server,
                self._seconds,
                request,
            )
