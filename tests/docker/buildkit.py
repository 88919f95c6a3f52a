"""A BuildKit of the test's own, with a registry that stands in for docker.io.

Guarantees: the daemon, its builds and their mounts live in namespaces that end with the test; all files are below one
folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import build
from cluster.layout import swerl_home
from cluster.preflight import install, missing_packages
from images.catalogue import DEBIAN
from images.engine import CA_BUNDLE, ImageBuilder
from tests.docker.daemon import BASE, end_namespaces, registry_settings, remove_cgroups
from tests.ports import free_port

BUILDER = "swerl-release"
STARTS_WITHIN_S = 60
SETTINGS = """
root = "{folder}/root"
[grpc]
  address = ["unix://{folder}/buildkitd.sock"]
[worker.containerd]
  enabled = false
[worker.oci]
  enabled = true
  networkMode = "host"
  binary = "{runc}"
  defaultCgroupParent = "{cgroup}"
[registry."docker.io"]
  mirrors = ["{registry}"]
[registry."{registry}"]
  http = true
"""
# Runs as the first process of the namespaces: $1 the daemon, $2 its settings.
START = """
mount -t tmpfs tmpfs /run
exec "$1" --config "$2"
"""
# Writes what BuildKit's default scanner writes, which only docker.io has: one SPDX document.
SCANNER = "docker/buildkit-syft-scanner:stable-1"
SCAN = """
set -eu
packages=$(grep -c ^Package: "$BUILDKIT_SCAN_SOURCE/var/lib/dpkg/status")
cat >"$BUILDKIT_SCAN_DESTINATION/packages.spdx.json" <<S
{"_type": "https://in-toto.io/Statement/v0.1", "predicateType": "https://spdx.dev/Document",
 "predicate": {"spdxVersion": "SPDX-2.3", "name": "$packages packages"}}
S
"""


@dataclass(frozen=True)
class BuildKit:
    """A running BuildKit with the builder of a release, and the registry that it pushes to."""

    folder: Path
    registry: str  # host:port

    def run(self, *command: str, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
        """Output of `command` in `folder`; fails the test with it when it exits other than 0."""
        own = {**os.environ, "BUILDX_CONFIG": str(self.folder / "config"), **(environment or {})}
        done = subprocess.run(command, cwd=folder, env=own, text=True, capture_output=True)
        assert done.returncode == 0, f"{' '.join(command)} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def buildx(self, *arguments: str, folder: Path | None = None, epoch: str = "0") -> str:
        """Output of buildx; `epoch` is the date of files that it makes."""
        program = build.build(swerl_home(), "buildx") / "buildx"
        return self.run(str(program), *arguments, folder=folder, environment={"SOURCE_DATE_EPOCH": epoch})

    def push(self, name: str, files: Mapping[str, str | Path]) -> str:
        """Digest of the image that a Dockerfile and other files make, in the registry."""
        context = self.folder / "contexts" / name.replace(":", "/")
        context.mkdir(parents=True)
        for file, content in files.items():
            if isinstance(content, Path):
                shutil.copy(content, context / file)
            else:
                (context / file).write_text(content)
        output = f"type=image,name={self.registry}/{name},push=true"
        self.buildx("build", "--builder", BUILDER, "--provenance=false", "--output", output, str(context))
        return self.digest(name)

    def digest(self, name: str) -> str:
        """Digest of an image or index in the registry."""
        image = f"docker://{self.registry}/{name}"
        return self.run("skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", image).strip()


@contextmanager
def running_buildkit(folder: Path) -> Iterator[BuildKit]:
    """A BuildKit with everything below `folder`; docker.io has the Debian image and a scanner."""
    if missing := missing_packages():
        install(missing)
    kit, cgroup = BuildKit(folder, f"127.0.0.1:{free_port()}"), f"swerl-buildkit-{os.getpid()}"
    runc = build.build(swerl_home(), "runc") / "runc"
    settings = SETTINGS.format(folder=folder, runc=runc, cgroup=cgroup, registry=kit.registry)
    (folder / "buildkitd.toml").write_text(settings)
    (folder / "registry.yml").write_text(registry_settings(folder / "registry", int(kit.registry.partition(":")[2])))
    daemon = [str(build.build(swerl_home(), "buildkit") / "buildkitd"), str(folder / "buildkitd.toml")]
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", START, "sh"]
    with (folder / "buildkitd.log").open("w") as log:
        registry = subprocess.Popen(["docker-registry", "serve", str(folder / "registry.yml")], stdout=log, stderr=log)
        buildkit = subprocess.Popen([*namespaces, *daemon], stdout=log, stderr=log, start_new_session=True)
        try:
            _await_buildkit(folder, buildkit)
            kit.buildx("create", "--name", BUILDER, "--driver", "remote", f"unix://{folder}/buildkitd.sock")
            _fill(kit)
            yield kit
        finally:
            end_namespaces(buildkit)
            registry.terminate()
            registry.wait()
            remove_cgroups(cgroup)


def _await_buildkit(folder: Path, buildkit: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while not (folder / "buildkitd.sock").exists():
        alive = buildkit.poll() is None and time.monotonic() < until
        assert alive, f"buildkitd did not start:\n{(folder / 'buildkitd.log').read_text()[-3000:]}"
        time.sleep(0.1)


def _fill(kit: BuildKit) -> None:
    """Debian, made from its packages, with this machine's certificates, and the scanner."""
    buildah = ImageBuilder("buildah", kit.registry, swerl_home() / "images")
    debian = DEBIAN.removeprefix("docker.io/")
    push = ["buildah", "push", "--quiet", "--tls-verify=false", buildah.base("debian")]
    kit.run(*push, f"docker://{kit.registry}/{debian}", environment=buildah.environment)
    if CA_BUNDLE.is_file():
        kit.push(debian, {"Dockerfile": BASE.format(debian=DEBIAN), "certificates.pem": CA_BUNDLE})
    scanner = f'FROM {DEBIAN}\nCOPY scan /scan\nENTRYPOINT ["sh", "/scan"]\n'
    kit.push(SCANNER, {"Dockerfile": scanner, "scan": SCAN})
