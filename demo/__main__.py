"""`python3 -m demo`: the demo, started by any Python >= 3.11; `python3 -m demo down` removes its objects;
`python3 -m demo console` serves the console over its output, with options of `swerl view`.

Exit status: 0 only if the job Completed; 1 if a step failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys

from cluster import preflight
from cluster.errors import ClusterError
from cluster.layout import cluster_name, make_command, swerl_home
from demo.cluster import DemoCluster
from demo.environment import enter_environment


def main(arguments: list[str]) -> int:
    try:
        stop = make_command("cluster-down", cluster_name())
        if not arguments and os.environ.get("SWERL_CLUSTER") != "existing":
            preflight.check(swerl_home())
        enter_environment("demo", arguments)
    except ClusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return report_interrupt("run the same command to resume")
    from demo.console import serve_console
    from demo.run import demo
    from demo.setup import remove_job
    from demo.steps import StepFailed

    try:
        if arguments == ["down"]:
            remove_job(DemoCluster.from_environment())
            return 0
        if arguments[:1] == ["console"]:
            return serve_console(arguments[1:])
        return 0 if demo()["phase"] == "Complete" else 1
    except (StepFailed, TimeoutError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return report_interrupt(f"if the cluster was started, it still runs ({stop} stops it)")


def report_interrupt(hint: str) -> int:
    """Exit status after Ctrl-C."""
    print(f"demo: stopped; {hint}", file=sys.stderr)
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
