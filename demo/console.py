"""`python3 -m demo console`: the console over the demo's output, while the job trains and after it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from swerl_agent.cli import main as swerl

from cluster.layout import cluster_name, make_command, swerl_home
from demo.cluster import DemoCluster
from demo.job import volume_folder

POLL_SECONDS = 0.5


def demo_folder() -> Path:
    """Where a run writes its summary and a copy of the job's output: `$SWERL_DEMO_FOLDER`, or `demo` in SWERL_HOME."""
    return Path(os.environ.get("SWERL_DEMO_FOLDER") or swerl_home() / "demo")


def console_command() -> str:
    """What to type to open the console."""
    return make_command("demo-console", cluster_name())


def serve_console(options: Sequence[str] = ()) -> int:
    """Serve until a signal, with these options of `swerl view`; its exit code. Waits until the folder exists."""
    local = DemoCluster.from_environment().local
    folder = volume_folder() if local else demo_folder() / "output"
    if not folder.is_dir():
        cause = "the job's volume" if local else "the copy of the job's output at the end of `make demo`"
        print(f"waiting for {cause}: {folder} (Ctrl-C stops)", flush=True)
    while not folder.is_dir():
        time.sleep(POLL_SECONDS)
    index = swerl_home() / "console" / f"demo-{cluster_name()}.sqlite"  # the volume stays as the job wrote it
    return swerl(["view", str(folder), "--index", str(index), *options])
