"""A docker of the test's own, as a user's is: with bridge, address translation and the usual limits.

Guarantees: dockerd, its containers, the registry and all their mounts, processes and network live in namespaces that
end with the test; the machine's own docker, network and packet filter are not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.layout import swerl_home
from cluster.preflight import install, missing_packages
from images.catalogue import DEBIAN
from images.engine import CA_BUNDLE, ImageBuilder
from tests.ports import free_port

STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 60
RESOLVER = "10.0.2.3"  # slirp4netns answers DNS there
# Runs as the first process of the namespaces: $1 the folder of everything, $2 the name of its cgroup.
START = """
mount -t tmpfs tmpfs /run
mkdir -p /etc/docker && mount -t tmpfs tmpfs /etc/docker
ip link set lo up
docker-registry serve "$1/registry.yml" &
exec dockerd --config-file "$1/daemon.json" --data-root "$1/data" --exec-root /run/docker --pidfile /run/docker.pid \
    -H "unix://$1/docker.sock" --cgroup-parent "/$2" --exec-opt native.cgroupdriver=cgroupfs
"""
BASE = """FROM {debian}
COPY certificates.pem /usr/local/share/machine.pem
ENV PIP_CERT=/usr/local/share/machine.pem SSL_CERT_FILE=/usr/local/share/machine.pem
"""


@dataclass(frozen=True)
class DockerDaemon:
    """A running docker; what `run` runs meets it, and its registry on the loopback interface it shares with it."""

    folder: Path
    registry: str  # host:port
    process: int  # one that is in docker's network
    buildkit: bool  # which of docker's two builders the client asks for

    @property
    def elsewhere(self) -> str:
        """The same registry under an address that is not taken for this machine's own."""
        return self.registry.replace("127.0.0.1", "127.0.0.2")

    def run(self, *command: str, folder: Path | None = None) -> str:
        """Output of `command` in `folder`; fails the test with it when it exits other than 0."""
        in_namespace = ["nsenter", f"--net=/proc/{self.process}/ns/net", *command]
        done = subprocess.run(in_namespace, cwd=folder, env=self._environment(), text=True, capture_output=True)
        assert done.returncode == 0, f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def images(self, checkout: Path, *arguments: str) -> str:
        """What `python -m images` of that checkout prints."""
        options = ["--engine", "docker", "--registry", self.registry, "--home", str(self.folder / "home")]
        return self.run(sys.executable, "-m", "images", *options, *arguments, folder=checkout)

    def layers(self, name: str, tag: str) -> list[str]:
        """Digests of the layers, lowest first, of an image in the registry."""
        found = self.run("skopeo", "inspect", "--tls-verify=false", f"docker://{self.registry}/{name}:{tag}")
        return list(json.loads(found)["Layers"])

    def put_index(self, name: str, tag: str) -> None:
        """The tag, which names an image, names an OCI index of this image from now on."""
        image, store = f"docker://{self.registry}/{name}:{tag}", f"{self.folder}/buildah"
        storage_options = ("--root", f"{store}/root", "--runroot", f"{store}/run", "--storage-driver", "vfs")
        manifest = ("buildah", *storage_options, "manifest")
        self.run(*manifest, "create", "index")
        self.run(*manifest, "add", "--tls-verify=false", "index", image)
        self.run(*manifest, "push", "--tls-verify=false", "--all", "--format", "oci", "index", image)

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "DOCKER_HOST": f"unix://{self.folder}/docker.sock",
            "DOCKER_CONFIG": str(self.folder / "config"),
            "DOCKER_BUILDKIT": str(int(self.buildkit)),
            "PATH": f"/usr/bin:/usr/sbin:{os.environ['PATH']}",  # the client of the same package as dockerd
            "PYTHONPATH": "",  # the checkout's own code
        }


def install_docker() -> None:
    """Installs what is missing, as `make cluster` does; a docker that comes with it is not left running."""
    fresh = shutil.which("dockerd") is None
    if missing := missing_packages() + (_docker_packages() if fresh or not shutil.which("slirp4netns") else []):
        install(missing)
    if fresh and shutil.which("systemctl"):
        subprocess.run(["systemctl", "disable", "--now", "docker.socket", "docker", "containerd"], capture_output=True)


def _docker_packages() -> list[str]:
    parts = ("docker-cli", "docker-buildx")  # in docker.io before Debian 13
    available = [
        part for part in parts if subprocess.run(["apt-cache", "show", part], capture_output=True).returncode == 0
    ]
    return ["docker.io", "slirp4netns", *available]


@contextmanager
def running_docker(folder: Path, *, buildkit: bool) -> Iterator[DockerDaemon]:
    """A docker with everything below `folder`, and in it the Debian image that it cannot be sure to download."""
    port, cgroup = free_port(), f"swerl-docker-{os.getpid()}"
    features = {"containerd-snapshotter": buildkit}  # containerd's image store comes with BuildKit, from docker 24 on
    (folder / "daemon.json").write_text(json.dumps({"dns": [RESOLVER], "features": features}))
    (folder / "config").mkdir()
    (folder / "config/config.json").write_text("{}")
    (folder / "registry.yml").write_text(registry_settings(folder / "registry", port))
    namespace_options = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with (folder / "dockerd.log").open("w") as log:
        start = ["unshare", *namespace_options, "sh", "-ec", START, "sh", str(folder), cgroup]
        docker = subprocess.Popen(start, stdout=log, stderr=log, start_new_session=True)
        try:
            daemon = DockerDaemon(folder, f"127.0.0.1:{port}", docker.pid, buildkit)
            _await_docker(daemon, docker)
            with _connected(docker.pid, folder):
                _load_debian(daemon)
                yield daemon
        finally:
            end_namespaces(docker)
            remove_cgroups(cgroup)


def registry_settings(storage: Path, port: int) -> str:
    return f"""version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {json.dumps(str(storage))}}}}}
http: {{addr: "0.0.0.0:{port}"}}
"""


def _await_docker(daemon: DockerDaemon, docker: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while docker.poll() is None and time.monotonic() < until:
        with contextlib.suppress(AssertionError):
            daemon.run("docker", "version")
            return
        time.sleep(0.2)
    raise AssertionError(f"dockerd did not start:\n{(daemon.folder / 'dockerd.log').read_text()[-3000:]}")


@contextmanager
def _connected(process: int, folder: Path) -> Iterator[None]:
    """The network of `process` reaches the internet through a program, not through the machine's packet filter."""
    with (folder / "slirp4netns.log").open("w") as log:
        command = ["slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", str(process), "tap0"]
        router = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        router.terminate()
        router.wait()


def _load_debian(daemon: DockerDaemon) -> None:
    """The image that docker would download, made from Debian's packages; with this machine's certificates."""
    archive, context = daemon.folder / "debian.tar", daemon.folder / "base"
    buildah = ImageBuilder("buildah", daemon.registry, swerl_home() / "images")
    image = buildah.base("debian")
    push = ["buildah", "push", "--quiet", image, f"docker-archive:{archive}:{DEBIAN}"]
    subprocess.run(push, env=buildah.environment, check=True, capture_output=True)
    daemon.run("docker", "load", "--input", str(archive))
    if CA_BUNDLE.is_file():
        context.mkdir()
        shutil.copy(CA_BUNDLE, context / "certificates.pem")
        (context / "Dockerfile").write_text(BASE.format(debian=DEBIAN))
        daemon.run("docker", "build", "-t", DEBIAN, str(context))


def end_namespaces(docker: subprocess.Popen[bytes]) -> None:
    """Returns when every process of the namespaces is gone, which is when their first one is."""
    for first in Path(f"/proc/{docker.pid}/task/{docker.pid}/children").read_text().split():
        os.kill(int(first), signal.SIGTERM)
    try:
        docker.wait(timeout=ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        docker.kill()
        docker.wait()
        raise


def remove_cgroups(name: str) -> None:
    """Groups that no process is in any more, the innermost first."""
    for top in [*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")]:
        for group in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
            group.rmdir()
        top.rmdir()
