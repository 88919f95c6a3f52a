"""A namespace of a benchmark's own, served by an operator of this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.cluster import ROOT, DemoCluster
from tests.control_plane.operator_process import Operator


@contextmanager
def served_namespace(cluster: DemoCluster, prefix: str, folder: Path) -> Iterator[tuple[str, Operator]]:
    """A new namespace and its operator, which leads and logs into `folder`; an installed release is removed first."""
    folder.mkdir(parents=True, exist_ok=True)
    namespace = f"{prefix}-{os.urandom(3).hex()}"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    cluster.helm("uninstall", "swe-rl", "--namespace", "swerl-system", "--ignore-not-found", "--wait")
    cluster.kubectl("create", "namespace", namespace)
    options = {"namespaces": namespace, "lease_namespace": namespace}
    try:
        with Operator(str(cluster.kubeconfig), folder / "operator.log", **options) as operator:
            operator.until_leading()
            yield namespace, operator
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
