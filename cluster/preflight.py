"""What a machine must have, and what can be installed on it.

Guarantees: what is missing and cannot be installed is one PrerequisiteError that says what to do; packages are
installed only when a file or program that they bring is missing.
"""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster import build
from cluster.errors import PrerequisiteError
from cluster.layout import image_listing

_HEADERS = "/usr/include/seccomp.h"

# What is looked for -> the Debian package that brings it. Images are built with the last group.
PACKAGES = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "sysctl": "procps",
    "modprobe": "kmod",
    "openssl": "openssl",
    "nft": "nftables",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "socat": "socat",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
    "docker-registry": "docker-registry",
    "gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
    "pkg-config": "pkg-config",
    _HEADERS: "libseccomp-dev",
    "git": "git",
    "buildah": "buildah",
    "/usr/lib/podman/netavark": "netavark",  # Debian 13's buildah does not start without it, and only recommends it
    "skopeo": "skopeo",
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


@dataclass(frozen=True)
class DiskNeeds:
    """Free disk, in GiB: what runs and what is not built yet add up, per disk."""

    running: int = 4  # on each disk
    programs: int = 10  # in the home: programs with their build caches, the Python environment
    registry: int = 6  # in the home: the images that were pushed
    image_builds: int = 10  # in `image_storage`, where buildah keeps its layers
    image_storage: Path = Path("/var/lib/containers")


DISK_NEEDS = DiskNeeds()


def check(home: Path, needs: DiskNeeds = DISK_NEEDS) -> None:
    """Raises PrerequisiteError for the first thing that is missing."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise PrerequisiteError(f"{platform.system()} on {platform.machine()}: use Linux on x86_64 or aarch64")
    if os.geteuid() != 0:
        raise PrerequisiteError("not root: a node makes namespaces, mounts and firewall tables; run as root (sudo)")
    build.go_version()
    _check_disk(home, needs)


def missing_packages() -> list[str]:
    """Debian packages to install, in order, each once."""
    return list(
        dict.fromkeys(package for path_or_program, package in PACKAGES.items() if not _present(path_or_program))
    )


def install(packages: list[str]) -> None:
    """Installs them with apt; raises PrerequisiteError where there is no apt, or it fails."""
    if not shutil.which("apt-get"):
        raise PrerequisiteError(
            "unsupported OS: no apt-get here; use Debian 12 or Ubuntu 24.04 (or newer), or install what these Debian "
            f"packages bring: {' '.join(packages)}"
        )
    _apt("update", "-q")
    _apt("install", "-y", "-q", "--no-install-recommends", *packages)
    if "docker-registry" in packages and shutil.which("systemctl"):
        # The package starts a service of its own on our port.
        subprocess.run(["systemctl", "disable", "--now", "docker-registry"], capture_output=True)


def load_modules() -> None:
    """Best effort: many kernels have these built in, and then there is nothing to load."""
    for module in ("overlay", "veth", "nf_tables", "nf_conntrack", "nft_fib_inet"):
        subprocess.run(["modprobe", "-q", module], capture_output=True)


def _present(path_or_program: str) -> bool:
    return (
        Path(path_or_program).exists() if path_or_program.startswith("/") else shutil.which(path_or_program) is not None
    )


def _check_disk(home: Path, needs: DiskNeeds) -> None:
    images_built = image_listing(home).is_file()
    in_home = needs.programs if build.unbuilt(home) else 0
    in_home += 0 if images_built else needs.registry
    image_builds = 0 if images_built else needs.image_builds
    one_disk = _disk(needs.image_storage) == _disk(home)
    _check_free_space(
        home,
        needs.running + in_home + (image_builds if one_disk else 0),
        "or set SWERL_HOME to a folder on a larger disk",
    )
    if not one_disk:
        _check_free_space(
            needs.image_storage,
            needs.running + image_builds,
            "for example with `buildah rmi --prune`, or mount a larger disk there",
        )


def _check_free_space(folder: Path, required_bytes: int, advice: str) -> None:
    existing = _existing(folder)
    free = shutil.disk_usage(existing).free / 2**30
    if free < required_bytes:
        raise PrerequisiteError(
            f"{free:.0f} GiB free on the disk of {existing}, {required_bytes} needed: make room, {advice}"
        )


def _disk(folder: Path) -> int:
    return _existing(folder).stat().st_dev


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _apt(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", *arguments], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True
    )
    if done.returncode:
        raise PrerequisiteError(f"`apt-get {' '.join(arguments)}` failed: {done.stderr.strip()[-600:]}")
