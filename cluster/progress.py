"""Timed steps on the terminal: what is being done, and how long it took."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_WIDTH = 58


@contextmanager
def step(title: str) -> Iterator[None]:
    """Prints `title` now and the seconds spent when the block ends; an error ends the line with `failed`."""
    print(f"  {title:<{_WIDTH}} ", end="", flush=True)
    start = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - start:6.1f} s", flush=True)


def print_line(text: str) -> None:
    print(text, flush=True)


def print_error(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)
