"""Command line: `python3 -m cluster up|down|status|restart|stop|build|kubeconfig`."""

import argparse
import os
import subprocess
import sys

from cluster import build, components, families, layout, lifecycle, status, targets
from cluster.errors import ClusterError
from cluster.layout import Cluster
from cluster.progress import print_error, print_line


def main() -> int:
    options = make_parser().parse_args()
    try:
        options.name = layout.cluster_name() if options.name is None else layout.check_name(options.name)
        return int(options.run(options))
    except ClusterError as error:
        print_error(str(error))
        return 1
    except (OSError, subprocess.SubprocessError) as error:
        print_error(f"{type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        print_error("interrupted; the same command goes on where it stopped")
        return 130


def _up(options: argparse.Namespace) -> int:
    if os.environ.get("SWERL_CLUSTER") == "existing":
        return _check_existing()
    cluster = lifecycle.up(options.name, layout.swerl_home(), bare=options.bare, families=families.requested())
    print_line(f"  export KUBECONFIG={cluster.kubeconfig} PATH={layout.swerl_home() / 'bin'}:$PATH")
    return 0


def _check_existing() -> int:
    """With SWERL_CLUSTER=existing nothing is started: the user's own cluster must answer and know KubeRay."""
    command = ["kubectl", "get", "crd", "rayclusters.ray.io", "-o", "name"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ClusterError("SWERL_CLUSTER=existing needs kubectl on PATH") from None
    if done.returncode:
        raise ClusterError(
            f"SWERL_CLUSTER=existing: `{' '.join(command)}` failed: {done.stderr.strip()} "
            "(set KUBECONFIG to a cluster that has the KubeRay operator)"
        )
    print_line("cluster: using the existing one of your kubeconfig")
    return 0


def _down(options: argparse.Namespace) -> int:
    lifecycle.down(options.name, layout.swerl_home(), purge=options.purge)
    return 0


def _status(options: argparse.Namespace) -> int:
    cluster = layout.find(options.name, layout.swerl_home())
    if cluster is None:
        print_line(f"cluster {options.name}: not running ({layout.make_command('cluster', options.name)} starts it)")
        return 1
    snapshot = status.snapshot(cluster)
    print_line(status.format_json(snapshot) if options.json else status.format_text(snapshot))
    return 0 if snapshot.healthy else 1


def _restart(options: argparse.Namespace) -> int:
    lifecycle.restart(_running(options.name), options.component)
    return 0


def _stop(options: argparse.Namespace) -> int:
    lifecycle.stop(_running(options.name), options.component)
    return 0


def _build(options: argparse.Namespace) -> int:
    lifecycle.prepare(layout.swerl_home(), tuple(options.target) or targets.DEFAULT_TARGETS)
    for name in options.target or targets.DEFAULT_TARGETS:
        print_line(f"{name} {build.folder(layout.swerl_home(), name)}")
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    print_line(str(_running(options.name).kubeconfig))
    return 0


def _running(name: str) -> Cluster:
    cluster = layout.find(name, layout.swerl_home())
    if cluster is None:
        start = layout.make_command("cluster", name)
        raise ClusterError(f"no cluster {name!r} with SWERL_HOME={layout.swerl_home()}; start it with `{start}`")
    return cluster


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description="A real single-node Kubernetes on this machine")
    parser.add_argument("--name", help="name of the cluster (default: $SWERL_CLUSTER_NAME or 'default')")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    up = verbs.add_parser("up", help="start it, or repair what does not run")
    up.add_argument("--bare", action="store_true", help="without CoreDNS and KubeRay")
    up.set_defaults(run=_up)
    down = verbs.add_parser("down", help="remove it; pulled images are kept")
    down.add_argument("--purge", action="store_true", help="remove the pulled images too")
    down.set_defaults(run=_down)
    shown = verbs.add_parser("status", help="components, node, add-ons; exit code 0 when all are healthy")
    shown.add_argument("--json", action="store_true")
    shown.set_defaults(run=_status)
    for verb, run, about in (
        ("restart", _restart, "stop one component and start it again"),
        ("stop", _stop, "stop one component; `up` starts it again"),
    ):
        one = verbs.add_parser(verb, help=about)
        one.add_argument("component", choices=list(components.ALL))
        one.set_defaults(run=run)
    built = verbs.add_parser("build", help="build programs without starting anything")
    built.add_argument("target", nargs="*", choices=[*targets.TARGETS, []], help="default: all that a cluster needs")
    built.set_defaults(run=_build)
    verbs.add_parser("kubeconfig", help="print the path of its kubeconfig").set_defaults(run=_kubeconfig)
    return parser


if __name__ == "__main__":
    sys.exit(main())
