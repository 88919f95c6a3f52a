"""Ports for what tests start."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """A free TCP port, outside the range from which the kernel hands out ports for connections."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
