"""The live view of a SweRLJob: the columns of `kubectl get swerl` and the steps so far.

Guarantees: it only reads, and tolerates an API server that does not respond for a while. On a terminal it redraws in
place; elsewhere it prints a line when step or phase change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.steps import StepFailed

RESPONSE_TIMEOUT = 60.0  # seconds without a response of the API server
FINAL_PHASES = {"Complete", "Failed"}
BARS = "▁▂▃▄▅▆▇█"


@dataclass
class JobView:
    """Follows one job's status until it is final; keeps what each step reported."""

    read: Callable[[], dict[str, Any]]
    console: Console = field(default_factory=Console)
    interval: float = 4.0  # seconds; each reading starts a process on the machine that trains
    response_timeout: float = RESPONSE_TIMEOUT
    started: float = field(default_factory=time.monotonic)
    phases: dict[str, float] = field(default_factory=dict)
    rewards: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    last_response: float = field(default_factory=time.monotonic)  # time of the last response

    def follow(self, timeout: float) -> dict[str, Any]:
        """The final status; raises TimeoutError after `timeout`, StepFailed after `response_timeout` without a
        response."""
        live = Live(console=self.console, auto_refresh=False, transient=True) if self.console.is_terminal else None
        if live:
            live.start()
        try:
            while self.status.get("phase") not in FINAL_PHASES:
                if time.monotonic() - self.started > timeout:
                    raise TimeoutError(f"the job is still {self.status.get('phase')} after {timeout:.0f} s")
                before = self.headline()
                self.observe(self.read_or_last())
                if live:
                    live.update(self.panel(), refresh=True)
                elif self.headline() != before:
                    self.console.print(
                        f"  {self.elapsed()}  {self.headline()}{self.details()}", highlight=False, soft_wrap=True
                    )
                if self.status.get("phase") not in FINAL_PHASES:
                    time.sleep(self.interval)
        finally:
            if live:
                live.stop()
        return self.status

    def read_or_last(self) -> dict[str, Any]:
        """The job as it is now, or the last reading if the API server does not respond."""
        try:
            job = self.read()
        except StepFailed:
            if time.monotonic() - self.last_response > self.response_timeout:
                raise
            return {"status": self.status}
        self.last_response = time.monotonic()
        return job

    def observe(self, job: dict[str, Any]) -> None:
        """Take one reading of the job object."""
        self.status = status = job.get("status") or {}
        if phase := status.get("phase"):
            self.phases.setdefault(phase, round(time.monotonic() - self.started, 1))
        step = status.get("step") or 0
        if step and status.get("rewardMean") is not None:
            self.phases.setdefault("FirstStep", round(time.monotonic() - self.started, 1))
            self.rewards.setdefault(step, status["rewardMean"])
            self.rates.setdefault(step, status.get("resolvedRate") or 0.0)

    def elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        return f"{minutes:2d}:{seconds:02d}"

    def headline(self) -> str:
        """Phase and step in one line; changes only when a new line should be printed."""
        status = self.status
        columns = [f"{status.get('phase') or 'Pending':9}"]
        if status.get("steps"):
            columns.append(f"step {status.get('step') or 0}/{status['steps']}")
        if status.get("rewardMean") is not None:
            columns.append(
                f"reward {status['rewardMean']:+.2f}  resolved {100 * (status.get('resolvedRate') or 0):.0f} %"
            )
        if not status.get("step"):
            columns.append(self.waiting_for())
        return "  ".join(columns)

    def details(self) -> str:
        """The frequently changing values of a running job; sandboxes as pending/ready."""
        status = self.status
        if status.get("phase") != "Training" or not status.get("step"):
            return ""
        tokens = _number(status.get("tokensPerSecond"), ".0f")
        sandboxes, grading = status.get("sandboxes") or {}, status.get("grading") or {}
        counts = (
            f"sandboxes {sandboxes.get('pending', 0)}/{sandboxes.get('ready', 0)}  grading {grading.get('pending', 0)}"
        )
        return f"  {tokens} tokens/s  {counts}  ETA {status.get('eta') or '-'}"

    def waiting_for(self) -> str:
        """The message of the first condition that is not true yet."""
        conditions = {condition["type"]: condition for condition in self.status.get("conditions") or []}
        for kind in ("Failed", "Validated", "ImagesReady", "ClusterReady", "Training"):
            condition = conditions.get(kind)
            if condition and (condition["status"] == "True") == (kind == "Failed"):
                return str(condition.get("message", ""))[:160]
        return ""

    def panel(self) -> Group:
        status = self.status
        table = Table.grid(padding=(0, 3))
        sandboxes, grading = status.get("sandboxes") or {}, status.get("grading") or {}
        table.add_row("[bold]phase", status.get("phase") or "Pending", "[bold]elapsed", self.elapsed())
        table.add_row(
            "[bold]reward mean", _number(status.get("rewardMean"), "+.2f"), "[bold]ETA", status.get("eta") or "-"
        )
        rate = status.get("resolvedRate")
        table.add_row("[bold]resolved", "-" if rate is None else f"{100 * rate:.0f} %",
                      "[bold]tokens/s", _number(status.get("tokensPerSecond"), ".0f"))  # fmt: skip
        table.add_row("[bold]sandboxes", f"{sandboxes.get('pending', 0)} pending, {sandboxes.get('ready', 0)} ready",
                      "[bold]grading", f"{grading.get('pending', 0)} patches")  # fmt: skip
        step, steps = status.get("step") or 0, status.get("steps") or 1
        bar = Table.grid(padding=(0, 2))
        bar.add_row(f"step {step}/{status.get('steps') or '?'}", ProgressBar(total=steps, completed=step, width=48))
        curve = Text("resolved per step  " + sparkline(list(self.rates.values())))
        return Group(Text("SweRLJob", style="bold cyan"), table, bar, curve, Text(self.waiting_for(), style="dim"))


def sparkline(values: list[float]) -> str:
    """`values` in 0..1 as one block character each."""
    return "".join(BARS[min(len(BARS) - 1, int(max(0.0, value) * len(BARS)))] for value in values)


def _number(value: float | None, format_spec: str) -> str:
    return "-" if value is None else format(value, format_spec)
