"""`python3 -m demo`: the demo, started by any Python >= 3.11; `python3 -m demo down` removes what it left.

Exit status: 0 only if the job Completed; 1 if a step failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys

from cluster import preflight
from cluster.errors import PrerequisiteError
from cluster.layout import swerl_home
from demo.cluster import ROOT, Cluster
from demo.environment import ensure


def in_environment() -> None:
    """Go on inside the light environment; makes it first if need be."""
    venv = swerl_home() / "venv"
    python = ensure(venv, ROOT / "requirements" / "dev.txt")
    if sys.prefix != str(venv):
        paths = [str(swerl_home() / "bin"), os.environ.get("PATH", "")]
        os.environ["PATH"] = os.pathsep.join(paths)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        os.chdir(ROOT)
        os.execv(python, [str(python), "-m", "demo", *sys.argv[1:]])


def main(arguments: list[str]) -> int:
    try:
        if arguments != ["down"] and os.environ.get("SWERL_CLUSTER") != "existing":
            preflight.check(swerl_home())
        in_environment()
    except PrerequisiteError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return stopped("the same command goes on where it stopped")
    from demo.run import demo
    from demo.setup import remove_job
    from demo.steps import StepFailed

    try:
        if arguments == ["down"]:
            remove_job(Cluster.chosen())
            return 0
        return 0 if demo()["phase"] == "Complete" else 1
    except (StepFailed, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return stopped("the cluster, if it was started, still runs (make cluster-down stops it)")


def stopped(what_now: str) -> int:
    """Exit status after Ctrl-C."""
    print(f"demo: stopped; {what_now}", file=sys.stderr)
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
