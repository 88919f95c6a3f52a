"""Priority of the kernel's RCU threads.

The kernel removes a Pod's network namespace in a worker that waits for grace periods of RCU. Where many Pods share few
processors, the threads that end a grace period wait behind them. Each Pod then takes tens of seconds to prepare.
The kernel's own remedy is the boot parameter `rcutree.kthread_prio=1`; this is the same on a running kernel.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"rcu_(preempt|sched|exp_gp_kthread_worker|exp_par_gp_kthread_worker/\d+)")
_PRIORITY = 1


def raise_priority() -> None:
    """Runs them under SCHED_FIFO until the next boot. Does nothing where they are not seen, as in a container, or may
    not be changed."""
    for thread in threads():
        try:
            if os.sched_getscheduler(thread) == os.SCHED_OTHER:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        except (PermissionError, ProcessLookupError):
            continue


def threads(proc: Path = Path("/proc")) -> Iterator[int]:
    """Process ids of the RCU threads; a program of such a name is none of them, since only it has a command line."""
    for folder in proc.glob("[0-9]*"):
        try:
            name, command = (folder / "comm").read_text().strip(), (folder / "cmdline").read_bytes()
        except OSError:
            continue  # ended meanwhile
        if not command and _NAME.fullmatch(name):
            yield int(folder.name)
