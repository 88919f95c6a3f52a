"""Stacks of a rank whose call does not end, for example because it waits for another rank.

Guarantees: nothing is written for a call that ends in time; a file that cannot be written is logged and stops nothing.
"""

from __future__ import annotations

import faulthandler
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

logger = logging.getLogger(__name__)


@contextmanager
def watched(call: str, file: Path | None, seconds: float) -> Iterator[None]:
    """Append the stacks of all threads to `file` every `seconds` while the block runs; None: never."""
    finished = threading.Event()

    def watch() -> None:
        began = time.monotonic()
        while file is not None and not finished.wait(seconds):
            _append(
                file, f"{call} has run for {time.monotonic() - began:.0f} s at {time.strftime('%FT%TZ', time.gmtime())}"
            )

    thread = threading.Thread(target=watch, name=f"watchdog of {call}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()


def _append(file: Path, title: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as sink:
            sink.write(f"{title}\n")
            sink.flush()
            faulthandler.dump_traceback(sink)
            sink.write("\n")
    except OSError:
        logger.exception("stacks not written: %s", title)
