"""Follows the demo's SweRLJob and shows it with the view of `swerl watch`.

Guarantees: it only reads, and tolerates an API server that does not respond for a while. On a terminal it redraws in
place; elsewhere it prints a line when step or phase change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from swerl_agent.jobs.view import JobView

from demo.steps import StepFailed

RESPONSE_TIMEOUT = 60.0  # seconds without a response of the API server


@dataclass
class JobFollower:
    """Reads one job until its status is final; `view` keeps what each step reported."""

    read: Callable[[], dict[str, Any]]
    console: Console = field(default_factory=Console)
    interval: float = 4.0  # seconds; each reading starts a process on the machine that trains
    response_timeout: float = RESPONSE_TIMEOUT
    view: JobView = field(default_factory=JobView)
    last_response: float = field(default_factory=time.monotonic)  # time of the last response

    def follow(self, timeout: float) -> dict[str, Any]:
        """The final status; raises TimeoutError after `timeout`, StepFailed after `response_timeout` without a
        response."""
        view = self.view
        live = Live(console=self.console, auto_refresh=False, transient=True) if self.console.is_terminal else None
        if live:
            live.start()
        try:
            while not view.is_final:
                if time.monotonic() - view.started > timeout:
                    raise TimeoutError(f"the job is still {view.status.get('phase')} after {timeout:.0f} s")
                before = view.headline()
                view.observe(self.read_or_last())
                if live:
                    live.update(view.panel(), refresh=True)
                elif view.headline() != before:
                    line = f"  {view.elapsed()}  {view.headline()}{view.details()}"
                    self.console.print(line, highlight=False, soft_wrap=True)
                if not view.is_final:
                    time.sleep(self.interval)
        finally:
            if live:
                live.stop()
        return view.status

    def read_or_last(self) -> dict[str, Any]:
        """The job as it is now, or the last reading if the API server does not respond."""
        try:
            job = self.read()
        except StepFailed:
            if time.monotonic() - self.last_response > self.response_timeout:
                raise
            return self.view.job
        self.last_response = time.monotonic()
        return job
