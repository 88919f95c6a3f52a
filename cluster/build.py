"""Programs of the cluster, built from pinned Go modules and kept by content.

Guarantees: the sha256 of its module pins, sources, flags and toolchain names a program, so an existing build is never
stale; a build appears whole or not at all; builders of one target or module compile nothing twice.
"""

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cluster import patches
from cluster.errors import ClusterError, PrerequisiteError
from cluster.layout import locked
from cluster.targets import DEFAULT_TARGETS, SOURCES, TARGETS, BuildTarget

_GO_MINIMUM = (1, 26)
_STRIP = "-s -w"
_FAST = {"GOGC": "400"}  # with -dwarf=false, which -w drops anyway: a sixth less processor time


def folder(home: Path, name: str) -> Path:
    """Where the programs of that target are, built or not."""
    return home / "bin-cache" / f"{name}-{_key(TARGETS[name]())}"


def built(home: Path, name: str) -> bool:
    return folder(home, name).is_dir()


def unbuilt(home: Path, names: Iterable[str] = DEFAULT_TARGETS) -> list[str]:
    """Those of the targets that are not built yet."""
    return [name for name in names if not built(home, name)]


def minutes(names: Iterable[str]) -> float:
    """About how long a cold build of these targets takes."""
    return sum(TARGETS[name]().minutes for name in names)


def build(home: Path, name: str) -> Path:
    """Builds the target unless it exists; returns its folder. Raises ClusterError with the compiler's output."""
    target, result = TARGETS[name](), folder(home, name)
    with locked(home / "bin-cache" / f"{name}.lock"):
        if not result.is_dir():
            for leftover in result.parent.glob(f"{name}-*.part"):
                shutil.rmtree(leftover)
            staging = result.with_name(result.name + ".part")
            staging.mkdir(parents=True)
            with locked(result.parent / f"{target.folder.name}.module.lock"):
                _compile(target, staging)
            _copy(target, staging)
            staging.rename(result)
    return result


def build_pause(home: Path) -> Path:
    """The static program that holds a Pod's namespaces."""
    source = SOURCES / "pause" / "pause.c"
    program = home / "bin-cache" / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        staging = program.with_suffix(f".{os.getpid()}.part")  # several clusters may be started at once
        _run(["gcc", "-static", "-Os", "-s", "-o", str(staging), str(source)], SOURCES, {})
        staging.rename(program)
    return program


def link_programs(home: Path) -> Path:
    """`$SWERL_HOME/bin` with the programs that people use; the folder."""
    links = home / "bin"
    links.mkdir(parents=True, exist_ok=True)
    for name, program in (("kubernetes", "kubectl"), ("helm", "helm"), ("containerd", "ctr")):
        new_link = links / f".{program}.{os.getpid()}"
        new_link.symlink_to(folder(home, name) / program)
        new_link.rename(links / program)
    return links


@functools.cache
def go_version() -> str:
    """Version of the Go toolchain; raises PrerequisiteError when there is none or it is too old."""
    wanted = ".".join(map(str, _GO_MINIMUM))
    try:
        output = _go(["env", "GOVERSION"], SOURCES)
    except FileNotFoundError:
        raise PrerequisiteError(f"no Go on PATH: install Go >= {wanted} (https://go.dev/dl)") from None
    found = re.match(r"go(\d+)\.(\d+)", output)
    if not found or (int(found[1]), int(found[2])) < _GO_MINIMUM:
        raise PrerequisiteError(f"{output.strip()} is too old: install Go >= {wanted} (https://go.dev/dl)")
    return output.strip()


def _key(target: BuildTarget) -> str:
    digest = hashlib.sha256(repr((target, go_version(), *target.patches)).encode())
    for path in sorted(target.folder.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(target: BuildTarget, result: Path) -> None:
    flags = ["-trimpath", "-mod=readonly", "-gcflags=all=-dwarf=false"]
    flags += ["-ldflags", f"{_STRIP} {target.ldflags}".strip(), "-tags", target.tags]
    with tempfile.TemporaryDirectory() as work:
        if target.patches:
            flags.append(f"-modfile={_patched(target, Path(work))}")
        settings = _FAST | {"CGO_ENABLED": "1" if target.cgo else "0"}
        _run(["go", "build", *flags, "-o", f"{result}/", *target.packages], target.folder, settings)
    for name, wanted in target.rename.items():
        (result / name).rename(result / wanted)


def _patched(target: BuildTarget, work: Path) -> Path:
    """A go.mod of the target with its patches applied."""
    names = {patch.module for patch in target.patches}
    folders = {name: module_sources(target, name) for name in sorted(names)}
    return patches.apply(target.patches, folders, target.folder, work)


def module_sources(target: BuildTarget, module: str) -> Path:
    """The folder with the sources of a pinned module, which is downloaded where it is missing."""
    _run(["go", "mod", "download", module], target.folder, {})
    return Path(_go(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], target.folder).strip())


def _copy(target: BuildTarget, result: Path) -> None:
    for source, name in target.copies.items():
        module, pattern = source.split(":")
        root = module_sources(target, module)
        (result / name).mkdir()
        for path in sorted(root.glob(pattern)):
            copy = shutil.copytree if path.is_dir() else shutil.copyfile
            copy(path, result / name / path.name)


def _go(arguments: list[str], cwd: Path) -> str:
    done = subprocess.run(["go", *arguments], cwd=cwd, env=_environment(), capture_output=True, text=True, check=True)
    return done.stdout


def _run(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=cwd, env={**_environment(), **env}, capture_output=True, text=True)
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise ClusterError(f"`{' '.join(command)}` failed in {cwd}:\n{tail}")


def _environment() -> dict[str, str]:
    """The caller's, without settings that would change what is built."""
    return {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
