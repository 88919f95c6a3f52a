"""Bringing a cluster up, repairing it, restarting a part, taking it down.

Guarantees: `up` is idempotent and starts exactly what does not run or runs with another configuration; it returns when
the node is Ready and CoreDNS and KubeRay are available. `down` works from any state, also after a crash or a reboot.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from cluster import addons, build, cgroups, cleanup, components, configs, layout, network, pki, preflight, process, rcu
from cluster.api import ApiClient, Unreachable
from cluster.errors import ClusterError, DaemonDied
from cluster.families import Families, check_kernel
from cluster.layout import NODE_NAME, Cluster
from cluster.netpol import default_deny
from cluster.progress import print_line, step
from cluster.targets import DEFAULT_TARGETS

_APISERVER_SECONDS = 180  # with every client at its door again, on a busy machine
_NODE_SECONDS = 180
_ADDON_SECONDS = 180
_KUBELET_STARTS = 5
_KUBELET_PAUSE = 1.0  # seconds
_INDEX_FILE = "index"  # written first into a state folder: the index it was made for


def prepare(home: Path, targets: tuple[str, ...] = DEFAULT_TARGETS) -> None:
    """Packages and programs; raises PrerequisiteError."""
    install_packages(home)
    _build(home, build.unbuilt(home, targets))
    build.build_pause(home)
    build.link_programs(home)


def install_packages(home: Path) -> None:
    """Debian's packages that the cluster and the image build need; raises PrerequisiteError."""
    preflight.check(home)
    packages = preflight.missing_packages()
    if packages:
        with step(f"install {len(packages)} packages ({packages[0]}, ...)"):
            preflight.install(packages)


def _build(home: Path, targets: list[str]) -> None:
    """Two targets at a time: downloads and the links of one use no second core."""
    if targets:
        print_line(f"  build {', '.join(targets)} (cold on two cores: {build.minutes(targets):.0f} min)")
    pool = ThreadPoolExecutor(2)
    try:
        for done in as_completed([pool.submit(_timed_build, home, name) for name in targets]):
            name, seconds = done.result()
            print_line(f"  {'build ' + name:<58} {seconds:6.1f} s")
    finally:
        pool.shutdown(cancel_futures=True)


def _timed_build(home: Path, name: str) -> tuple[str, float]:
    start = time.monotonic()
    build.build(home, name)
    return name, time.monotonic() - start


def up(name: str, home: Path, *, bare: bool = False, families: Families | None = None) -> Cluster:
    """A running cluster of that name; a bare one is not given CoreDNS and KubeRay.

    `families`: those of a new cluster, by default IPv4; raises ClusterError where a running one has others.
    """
    check_kernel(families or ())
    start = time.monotonic()
    print_line(f"cluster {name}: {layout.state_folder(home, name)}")
    with layout.locked(_lock(home, name)):
        prepare(home)
        cluster = _reserve(name, home, families)
        _start_all(cluster)
        if not bare:
            _add_addons(cluster)
    print_line(f"  {'cluster is up':<58} {time.monotonic() - start:6.1f} s")
    return cluster


def restart(cluster: Cluster, name: str) -> None:
    """Stops one component and starts it again; returns when it serves."""
    stop(cluster, name)
    with layout.locked(_lock(cluster.home, cluster.name)):
        process.ensure(cluster, _daemon(cluster, name))
        if name in ("apiserver", "etcd"):
            _wait_apiserver(cluster)


def stop(cluster: Cluster, name: str) -> None:
    """Stops one component; `up` starts it again."""
    _daemon(cluster, name)
    with layout.locked(_lock(cluster.home, cluster.name)):
        process.stop(cluster, name)


def down(name: str, home: Path, *, purge: bool = False) -> None:
    """Removes the cluster; its pulled images stay for the next start unless `purge`."""
    with layout.locked(_lock(home, name)):
        cluster = layout.find(name, home)
        if cluster:
            with step(f"stop cluster {name}"):
                _stop_all(cluster)
            with step("remove processes, mounts, network, cgroup"):
                cleanup.remove_runtime(cluster)
        cleanup.remove_state(layout.state_folder(home, name), keep_images=not purge)
        if cluster:
            layout.release(cluster)
    _lock(home, name).unlink(missing_ok=True)


def api(cluster: Cluster) -> ApiClient:
    return ApiClient(cluster.server, cluster.pki)


def node_ready(cluster: Cluster) -> bool:
    conditions = api(cluster).get(f"/api/v1/nodes/{NODE_NAME}").get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def available(cluster: Cluster, namespace: str, deployment: str) -> bool:
    """True when every replica of the Deployment's newest generation is available."""
    found = api(cluster).get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}")
    status = found.get("status", {})
    observed = status.get("observedGeneration") == found["metadata"]["generation"]
    counts = {status.get("availableReplicas", 0), status.get("updatedReplicas", 0), found["spec"]["replicas"]}
    return observed and len(counts) == 1


def _reserve(name: str, home: Path, families: Families | None) -> Cluster:
    """The cluster with its index reserved, and without the remains of an earlier boot or a lost network."""
    known = layout.find(name, home)
    cluster = layout.reserve(name, home, families=families)
    index_file = cluster.state / _INDEX_FILE
    fresh = known is None or not index_file.exists() or not network.exists(cluster)
    if fresh:
        cleanup.remove_runtime(cluster)
        cleanup.remove_state(cluster.state, keep_images=True)
        cluster.state.mkdir(parents=True, exist_ok=True)
        index_file.write_text(str(cluster.index))
    return cluster


def _start_all(cluster: Cluster) -> None:
    with step("network, certificates, configuration"):
        preflight.load_modules()
        rcu.raise_priority()
        cgroups.create(cluster.label)
        network.up(cluster)
        default_deny.install(cluster)
        pki.make(cluster)
        configs.write(cluster, pause_image=addons.image(cluster, "pause"))
    with step("registry, etcd, containerd, apiserver"):
        _ensure(cluster, "registry", "mirror", "etcd", "containerd", "apiserver")
        _wait(lambda: _registry_serves(cluster), 20, "the registry answers", cluster, ("registry", "mirror"))
        addons.push_images(cluster)
        _wait_apiserver(cluster)
    with step("policy enforcement, controllers, scheduler, kubelet"):
        _start_node(cluster)


def _start_node(cluster: Cluster, *, pause: float = _KUBELET_PAUSE) -> None:
    """Start what does not run yet, the kubelet again, after `pause` seconds, where it ends: containerd may serve before
    its CRI does."""
    for left in reversed(range(_KUBELET_STARTS)):
        _ensure(cluster, *components.ALL)
        try:
            _wait(lambda: node_ready(cluster), _NODE_SECONDS, "the node is Ready", cluster, tuple(components.ALL))
            return
        except DaemonDied as died:
            if died.name != "kubelet" or not left:
                raise
            time.sleep(pause)


def _add_addons(cluster: Cluster) -> None:
    with step("CoreDNS and the KubeRay operator"):
        addons.apply(cluster)
        for namespace, name in addons.DEPLOYMENTS:
            is_available = partial(available, cluster, namespace, name)
            _wait(
                is_available,
                _ADDON_SECONDS,
                f"Deployment {namespace}/{name} is available",
                cluster,
                tuple(components.ALL),
            )


def _stop_all(cluster: Cluster) -> None:
    for name in reversed(components.ALL):
        if name not in ("containerd", "registry"):
            process.stop(cluster, name, grace=3.0)
    cgroups.kill(cluster.label, only_containers=True)
    cleanup.remove_containers(cluster)
    for name in ("containerd", "registry"):
        process.stop(cluster, name)


def _ensure(cluster: Cluster, *names: str) -> None:
    for name in names:
        process.ensure(cluster, _daemon(cluster, name))


def _daemon(cluster: Cluster, name: str) -> process.Daemon:
    if name not in components.ALL:
        raise ClusterError(f"no component {name!r}; there are: {', '.join(components.ALL)}")
    return components.ALL[name](cluster)


def _wait_apiserver(cluster: Cluster) -> None:
    _wait(
        lambda: api(cluster).text("/readyz", timeout=20) == "ok",
        _APISERVER_SECONDS,
        "the apiserver is ready",
        cluster,
        ("etcd", "containerd", "apiserver"),
    )


def _registry_serves(cluster: Cluster) -> bool:
    return addons.registry(cluster).serves()


def _wait(condition: Callable[[], bool], seconds: float, what: str, cluster: Cluster, needed: tuple[str, ...]) -> None:
    """Polls until `condition`; raises ClusterError when time is over or a daemon that is needed for it has died."""
    deadline, reason = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (Unreachable, OSError) as error:
            reason = f" ({error})"
        dead = [name for name in needed if not process.running(cluster, name)]
        if dead:
            raise DaemonDied(
                dead[0],
                f"{dead[0]} died; its log {process.log_file(cluster, dead[0])} ends:\n"
                f"{process.log_tail(cluster, dead[0])}",
            )
        time.sleep(0.1)
    raise ClusterError(f"timed out after {seconds:.0f} s waiting until {what}{reason}; logs are in {cluster.log}")


def _lock(home: Path, name: str) -> Path:
    return home / "clusters" / f".{name}.lock"
