"""What builds and pushes: buildah on base images made from Debian packages, or docker on a networked machine.

Guarantees: a push either leaves the complete image under its tag or raises BuildError with the end of the engine's
output.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from images.catalogue import BASES, DEBIAN, Image, list_files

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# What a tag can name: docker with containerd's image store pushes an index, which also holds the build's provenance.
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class BuildError(RuntimeError):
    """An image could not be built or pushed; the message holds the command and the end of its output."""


def run(command: list[str], env: dict[str, str] | None = None, log: Path | None = None) -> str:
    """Output of `command`; its whole output also goes to `log`. Raises BuildError when it fails."""
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout)
    if done.returncode:
        where = f" (all of it: {log})" if log else ""
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise BuildError(f"`{' '.join(command[:4])} ...` exited {done.returncode}{where}:\n{tail}")
    return done.stdout


def write_context(image: Image, directory: Path) -> None:
    """Lay the image's inputs out below `directory`, the build context."""
    for context_path, source in image.inputs.items():
        for path in list_files(source):
            target = directory / context_path if path == source else directory / context_path / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target, follow_symlinks=False)


@dataclass(frozen=True)
class ImageBuilder:
    """`tool` is buildah or docker; `registry` (host:port) is where this machine reaches the registry."""

    tool: str
    registry: str
    home: Path

    @property
    def local(self) -> bool:
        """Whether the registry is this machine's own, spoken to without TLS."""
        return self.registry.partition(":")[0] in ("127.0.0.1", "localhost")

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "BUILDAH_ISOLATION": "chroot",
            "STORAGE_DRIVER": os.environ.get("STORAGE_DRIVER", "overlay"),
        }

    def in_registry(self, name: str, tag: str) -> bool:
        """Whether the registry already holds this tag; only a local one is asked, others get the push and decide."""
        return self.local and self._manifest(name, tag) is not None

    def _manifest(self, name: str, tag: str, put: tuple[str, bytes] | None = None) -> tuple[str, bytes] | None:
        """Media type and text of a manifest in the local registry, None without one; `put` stores it first."""
        request = urllib.request.Request(f"http://{self.registry}/v2/{name}/manifests/{tag}")
        request.add_header("Accept", ", ".join(MANIFEST_TYPES))
        if put is not None:
            request.method, request.data = "PUT", put[1]
            request.add_header("Content-Type", put[0])
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return str(response.headers["Content-Type"]), bytes(response.read())
        except urllib.error.HTTPError:
            return None
        except OSError as error:
            raise BuildError(
                f"no registry at http://{self.registry} ({error}); start it with `make cluster`"
            ) from error

    def base(self, name: str) -> str:
        """Reference of the base image `name`; docker fetches it, buildah makes Debian's from packages once and has no
        other."""
        reference = BASES[name]
        if self.tool == "buildah" and not self._is_stored(reference):
            if reference != DEBIAN:
                raise BuildError(f"{reference} is fetched by docker only: build with SWERL_IMAGE_ENGINE=docker")
            self._bootstrap_debian()
        return reference

    def build(self, image: Image, tag: str, parent: str) -> None:
        """Build `image` on the reference `parent` and keep it as localhost/<name>:<tag>."""
        with tempfile.TemporaryDirectory(prefix="swerl-image-") as folder:
            context = Path(folder)
            if image.prepare:
                image.prepare()
            write_context(image, context)
            command = [self.tool, "build", *self._options(image), "--build-arg", f"BASE={parent}"]
            command += ["-t", f"localhost/{image.name}:{tag}", "-f", str(image.dockerfile), str(context)]
            run(command, self.environment, self.home / "logs" / f"{image.name.replace('/', '-')}.log")

    def publish(self, name: str, tag: str, *extra_tags: str) -> None:
        """Push localhost/<name>:<tag> to the registry unless it is there, and give it the `others` as further tags."""
        if not self.in_registry(name, tag):
            self._push(name, tag, tag)
        for extra_tag in extra_tags:
            if not self.local:
                self._push(name, tag, extra_tag)
            elif (manifest := self._manifest(name, tag)) is None or self._manifest(name, extra_tag, manifest) is None:
                raise BuildError(f"the registry at {self.registry} does not take the tag {extra_tag} of {name}:{tag}")

    def _push(self, name: str, tag: str, as_tag: str) -> None:
        local, remote = f"localhost/{name}:{tag}", f"{self.registry}/{name}:{as_tag}"
        if self.tool == "docker":
            run(["docker", "tag", local, remote])
            run(["docker", "push", remote])
        else:
            options = [f"--tls-verify={str(not self.local).lower()}", "--format", "oci", "--compression-format", "zstd"]
            if self.local:  # over loopback, a fifth of the processor time is worth more than 6 % of the bytes
                options += ["--compression-level", "1"]
            run(["buildah", "push", *options, local, f"docker://{remote}"], self.environment)

    def run_in(self, reference: str, checkout: Path, command: list[str]) -> int:
        """Exit status of `command` inside the image `reference`, in /checkout, which is the folder `checkout`.

        It runs as root: what it leaves in the checkout and in /cache belongs to this machine's user, and is there the
        next time.
        """
        cache = self.home / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        mount = ["-v", f"{checkout}:/checkout", "-v", f"{cache}:/cache"]
        if self.tool == "docker":
            options = ["--rm", "--user", "0:0", *mount, "-w", "/checkout"]
            return subprocess.run(["docker", "run", *options, reference, *command]).returncode
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # buildah's own 1,024 is too few for Ray beside pytest
        options = ["--pull=never", "--ulimit", f"nofile={limit}:{limit}"]
        container = run(["buildah", "from", *options, reference], self.environment).strip().splitlines()[-1]
        try:
            # Its own name must be one that /etc/hosts knows: gloo looks it up for every process group.
            command_prefix = [
                "buildah",
                "run",
                *mount,
                "--user",
                "0:0",
                "--hostname",
                "localhost",
                "--workingdir",
                "/checkout",
                container,
            ]
            return subprocess.run([*command_prefix, "--", *command], env=self.environment).returncode
        finally:
            run(["buildah", "rm", container], self.environment)

    def is_stored(self, name: str, tag: str) -> bool:
        """Whether the engine's own storage holds localhost/<name>:<tag>."""
        return self._is_stored(f"localhost/{name}:{tag}")

    def _is_stored(self, reference: str) -> bool:
        command = ["docker", "image", "inspect"] if self.tool == "docker" else ["buildah", "inspect", "--type", "image"]
        done = subprocess.run([*command, reference], env=self.environment, capture_output=True)
        return done.returncode == 0

    def _options(self, image: Image) -> list[str]:
        if self.tool == "docker":
            return []
        options = ["--layers", "--pull=never"]
        if image.needs_network and CA_BUNDLE.is_file():
            inside = "/run/ca-bundle.crt"
            options += ["-v", f"{CA_BUNDLE}:{inside}:ro"]
            options += ["--build-arg", f"PIP_CERT={inside}", "--build-arg", f"SSL_CERT_FILE={inside}"]
        return options

    def _bootstrap_debian(self) -> None:
        tarball = self.home / "debian-trixie.tar"
        if not tarball.is_file():
            partial = tarball.with_suffix(".partial.tar")
            partial.parent.mkdir(parents=True, exist_ok=True)
            run(["mmdebstrap", "--variant=minbase", "--include=ca-certificates", "trixie", str(partial)])
            partial.rename(tarball)
        container = run(["buildah", "from", "scratch"], self.environment).strip().splitlines()[-1]
        run(["buildah", "add", container, str(tarball), "/"], self.environment)
        run(["buildah", "config", "--cmd", "bash", "--env", "LANG=C.UTF-8", container], self.environment)
        run(["buildah", "commit", "--rm", container, DEBIAN], self.environment)
