"""What the peers need besides the image of the sandboxes: that image as an archive, and a Ray worker with gVisor."""

from __future__ import annotations

from pathlib import Path

from swerl_agent.sandbox import PodConnector, Session

from cluster import build, layout
from images.__main__ import Builder, parse_options
from images.catalogue import Image
from images.engine import ImageBuilder
from tests.bench.trajectories.peers import create, remove
from tests.bench.trajectories.ray_pod import ARCHIVE
from tests.bench.trajectories.way import Place, bare_pod

OUT = "/out"  # in the Pod that archives itself
MOUNTS = " ".join(f"--exclude=.{folder}/*" for folder in (OUT, "/proc", "/sys", "/dev"))
PACK = f"cd / && tar --one-file-system {MOUNTS} -cf {OUT}/{ARCHIVE} ."
PYTHON = "python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'"
SECONDS = 120.0


async def export_archive(place: Place) -> Path:
    """The node's folder with the image's files as one archive."""
    folder = place.folder / "files"
    folder.mkdir(exist_ok=True)
    await _in_pod(place, PACK, folder)
    return folder


async def python_of(place: Place) -> str:
    """The version of Python in the image, such as 3.13."""
    return await _in_pod(place, PYTHON, place.folder)


async def _in_pod(place: Place, command: str, folder: Path) -> str:
    """Output of a command in a Pod of the image that has the node's folder at OUT."""
    pod = bare_pod(place.image, place.namespace, "setup")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "out", "mountPath": OUT}]
    pod["spec"]["volumes"] = [{"name": "out", "hostPath": {"path": str(folder)}}]
    await create(place, pod)
    uid = (await place.pods.ready("setup"))["metadata"]["uid"]
    async with Session(PodConnector(place.client, place.namespace, "setup", uid=uid)) as session:
        done = await session.run(command, timeout=SECONDS)
    await remove(place, "setup")
    if done.exit_code != 0:
        raise RuntimeError(f"`{command}` ended with {done.exit_code}: {done.stderr.decode()}")
    return done.stdout.decode().strip()


def ray_image() -> str:
    """Reference of the Ray worker's image, built on our trainer's and pushed if it is missing."""
    options = parse_options([])
    builder = Builder(ImageBuilder(options.engine, options.registry, options.home), options.cluster_registry)
    runsc = build.folder(layout.swerl_home(), "gvisor") / "runsc"
    parent = "swe-rl/trainer"
    builder.key(parent)
    dockerfile = Path(__file__).with_name("Dockerfile")
    image = Image("swe-rl/bench-ray", dockerfile, parent, {"runsc": runsc}, needs_network=True)
    builder.ensure(image)
    return builder.references[image.name]
