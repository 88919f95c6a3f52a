"""`python3 -m release`: build images, chart, wheel and kubectl plugin of this version; push what a registry must hold.

Everything is written to the output folder. With --push, images and chart go to the registry; without, the images
become OCI archives in `images/`. A push needs a checkout without uncommitted changes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from demo.environment import enter_environment
from images.catalogue import ROOT
from images.catalogue import release as release_version
from images.engine import BuildError, run
from release.bake import DOCKER_IO, RELEASED, Release, Selection, bake_definition, base_images, write_contexts

BUILDER = "swerl-release"  # of its own: docker's default one makes neither several platforms nor attestations
BAKE_FILE = "docker-bake.json"
EXAMPLE_URL = "https://downloads.example.org/swe-rl"


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m release", description=__doc__)
    parser.add_argument("--push", default="", metavar="REGISTRY/PATH", help="push images and chart there")
    parser.add_argument("--url", default=EXAMPLE_URL, help="where users will download the files, for krew's manifest")
    parser.add_argument("--output", type=Path, default=ROOT / "build/release", metavar="FOLDER")
    parser.add_argument("--images", default=",".join(RELEASED), help='the images to build, or "no"')
    parser.add_argument("--platforms", default="", help="build for these platforms alone, e.g. linux/amd64")
    parser.add_argument(
        "--mirror", default=DOCKER_IO, metavar="REGISTRY/PATH", help="read base images of docker.io there"
    )
    options = parser.parse_args(arguments)
    try:
        options.selection = select(options.images, options.platforms, options.mirror)
    except ValueError as error:
        parser.error(str(error))
    if "://" in options.push:
        parser.error(f"--push {options.push} has a scheme; name host and path alone")
    if not options.url.startswith("https://"):
        parser.error(f"--url {options.url} is no https:// address; krew takes no other")
    return options


def select(images: str, platforms: str, mirror: str) -> Selection:
    """What to build, from comma-separated names; raises ValueError where there is no such image, or none of it."""
    names = () if images == "no" else tuple(images.split(","))
    if unknown := [name for name in names if name not in RELEASED]:
        raise ValueError(f"no image {unknown[0]!r}; --images takes {', '.join(RELEASED)}, or no")
    selection = Selection(names, tuple(filter(None, platforms.split(","))), mirror.rstrip("/"))
    if missing := [name for name in names if not selection.platforms_of(name)]:
        have = ", ".join(RELEASED[missing[0]].platforms)
        raise ValueError(f"{missing[0]} exists for {have} alone; leave it out of --images or change --platforms")
    return selection


def describe(registry: str) -> Release:
    """The release of the checkout's commit. Raises BuildError where a push would hold what no commit has."""
    git = ["git", "-C", str(ROOT)]
    changed = run([*git, "status", "--porcelain"]).split("\n")[:-1]
    if changed and registry:
        raise BuildError(f"{len(changed)} uncommitted changes ({changed[0].strip()}, ...); commit them before a push")
    revision = run([*git, "rev-parse", "HEAD"]).strip() + ("-dirty" if changed else "")
    return Release(release_version(), revision, run([*git, "log", "-1", "--format=%cI"]).strip(), registry.rstrip("/"))


def build_images(release: Release, folder: Path, selection: Selection) -> None:
    """Build the selected images by `docker buildx bake`; push them where the release has a registry."""
    if not shutil.which("docker") or subprocess.run(["docker", "buildx", "version"], capture_output=True).returncode:
        raise BuildError("images need docker with its plugin buildx; install both, or leave images out (IMAGES=no)")
    (folder / "images").mkdir(exist_ok=True)
    write_contexts(folder, selection)
    digests = {name: base_digest(selection.base(name)) for name in base_images(selection)}
    definition = bake_definition(release, digests, selection)
    (folder / BAKE_FILE).write_text(json.dumps(definition, indent=1) + "\n")
    if subprocess.run(["docker", "buildx", "inspect", BUILDER], capture_output=True).returncode:
        run(["docker", "buildx", "create", "--name", BUILDER, "--driver", "docker-container"])
    command = ["docker", "buildx", "bake", "--builder", BUILDER, "--file", BAKE_FILE]
    environment = os.environ | {"SOURCE_DATE_EPOCH": release.epoch}
    if subprocess.run([*command, "--metadata-file", "images/digests.json"], cwd=folder, env=environment).returncode:
        raise BuildError(f"`docker buildx bake` failed, see above; its file is {folder / BAKE_FILE}")


def base_digest(reference: str) -> str:
    """The digest of a base image, of all its platforms."""
    said = run(["docker", "buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", reference])
    return str(json.loads(said)["digest"])


def push_chart(chart: Path, registry: str) -> None:
    """Push the packaged chart beside the images; a registry on this machine is spoken to without TLS."""
    local = registry.partition(":")[0] in ("127.0.0.1", "localhost")
    run(["helm", "push", str(chart), f"oci://{registry}", *(["--plain-http"] if local else [])])


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    enter_environment("release", arguments)
    from release.files import write_files  # reads YAML: in the light environment only

    folder: Path = options.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        release = describe(options.push)
        files = write_files(release, folder, options.url)
        print(*(f"  {file}" for file in files), sep="\n", flush=True)
        if options.selection.images:
            build_images(release, folder, options.selection)
        if release.registry:
            push_chart(next(file for file in files if file.suffix == ".tgz"), release.registry)
    except BuildError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
