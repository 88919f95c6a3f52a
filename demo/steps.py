"""Timed steps: each prints its title, its duration, and one clear line on failure."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


class StepFailed(RuntimeError):
    """A step failed; the message says what failed and what to do."""


@dataclass
class Steps:
    """Prints every step as it runs and keeps its duration in seconds under its name.

    `estimate` are the minutes of the steps to come, in their order; a step in it says how long everything still takes.
    """

    estimate: Mapping[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, title: str) -> Iterator[None]:
        print(f"• {title}{self._remaining(name)}", flush=True)
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 1)
        print(f"  done in {self.seconds[name]:.1f} s", flush=True)

    def _remaining(self, name: str) -> str:
        if name not in self.estimate:
            return ""
        to_come = list(self.estimate)[list(self.estimate).index(name) :]
        return f"   (about {sum(self.estimate[each] for each in to_come):.0f} min to the end of the demo)"


def run(command: Sequence[str], *, stdin: str | None = None, show: bool = False, timeout: float = 3600) -> str:
    """Standard output of `command` (with `show`: to the terminal). Raises StepFailed with the end of its output."""
    try:
        done = subprocess.run(
            command, input=stdin, text=True, timeout=timeout, stdout=None if show else subprocess.PIPE,
            stderr=sys.stdout if show else subprocess.PIPE,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise StepFailed(f"{command[0]} is not installed: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"`{' '.join(command[:5])}` took longer than {timeout:.0f} s") from error
    if done.returncode:
        output = (done.stderr or done.stdout or "see above").strip()
        raise StepFailed(f"`{' '.join(command[:5])}` exited {done.returncode}: {output[-2000:]}")
    return done.stdout or ""
