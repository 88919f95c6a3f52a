"""`python3 -m images`, with any Python >= 3.11: build what changed, push it, and print one line per image.

The references pushed are written to <home>/images.json as {image name: reference inside the cluster}, the one place
that the chart's values, the demo and the tests take them from. `python3 -m images NAME -- COMMAND` runs a command in
an image, with the checkout at /checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cluster import layout
from cluster.errors import ClusterError
from demo.environment import enter_environment
from images.catalogue import BASES, ROOT, Image, content_key, project_images
from images.engine import BuildError, ImageBuilder

NEWEST_TAG = "latest"
TASK_IMAGES = "tasks"
BASE_KEYS = BASES | {"debian": "debian"}  # every machine builds its own Debian image: its name is its key


@dataclass
class Builder:
    """Builds parents before children; `references` holds the name of every image inside the cluster."""

    engine: ImageBuilder
    cluster_registry: str
    keys: dict[str, str] = field(default_factory=lambda: dict(BASE_KEYS))
    references: dict[str, str] = field(default_factory=dict)

    def ensure(self, image: Image, *, quiet: bool = False) -> str:
        """Have `image` in the registry under its content key, `latest` and its own tags; build only what is missing.

        Returns (and, unless `quiet`, prints) the step taken: present, pushed, built and pushed.
        """
        started = time.monotonic()
        parent = image.parent or "debian"
        tag = self.keys[image.name] = content_key(image, self.keys[parent])
        done = "present"
        if not self.engine.in_registry(image.name, tag):
            done = "pushed"
            if not self.engine.is_stored(image.name, tag):
                done = "built and pushed"
                self.engine.build(image, tag, self.local(parent))
        self.engine.publish(image.name, tag, NEWEST_TAG, *image.tags)
        self.references[image.name] = f"{self.cluster_registry}/{image.name}:{tag}"
        if not quiet:
            print(f"  {image.name}:{tag}  {done}  {time.monotonic() - started:.1f} s", flush=True)
        return done

    def local(self, name: str) -> str:
        """Reference of `name` in the engine's own storage; builds it there when it is missing."""
        if name in BASES:
            return self.engine.base(name)
        image = next(image for image in project_images() if image.name == name)
        parent = image.parent or "debian"
        self.keys.setdefault(parent, self.key(parent))
        tag = self.keys[name] = content_key(image, self.keys[parent])
        if not self.engine.is_stored(name, tag):
            self.engine.build(image, tag, self.local(parent))
        return f"localhost/{name}:{tag}"

    def key(self, name: str) -> str:
        """Content key of a project image."""
        if name not in self.keys:
            image = next(image for image in project_images() if image.name == name)
            self.keys[name] = content_key(image, self.key(image.parent or "debian"))
        return self.keys[name]


def select_images(names: Iterable[str]) -> list[Image]:
    """Project images whose last name part is in `names` (when empty, all but those on request), with their parents,
    parents first."""
    chosen = {
        image.name
        for image in project_images()
        if (image.name.removeprefix("swe-rl/") in names if names else not image.on_request)
    }
    for image in reversed(project_images()):
        if image.name in chosen and image.parent:
            chosen.add(image.parent)
    return [image for image in project_images() if image.name in chosen]


def build(builder: Builder, names: set[str]) -> None:
    """Build and push the named images (all when empty) and note their references."""
    from images.bundled import demo_data, task_folders, task_image  # reads YAML: in the light environment only

    for image in select_images(names - {TASK_IMAGES} | ({"sandbox-base"} if TASK_IMAGES in names else set())):
        builder.ensure(image)
    if not names or TASK_IMAGES in names:
        with tempfile.TemporaryDirectory(prefix="swerl-tasks-") as folder:
            tasks = [task_image(task, Path(folder) / "repositories") for task in task_folders()]
            present = [builder.ensure(image, quiet=True) for image in tasks].count("present")
            print(f"  swe-rl/task-*  {len(tasks)} images, {present} of them present", flush=True)
            builder.ensure(demo_data(Path(folder) / "tasks", builder.references))
    listing = builder.engine.home / "images.json"
    known = json.loads(listing.read_text()) if listing.is_file() else {}
    listing.parent.mkdir(parents=True, exist_ok=True)
    listing.write_text(json.dumps(known | builder.references, indent=1, sort_keys=True) + "\n")


def store(builder: Builder, names: set[str]) -> None:
    """Build the named images (all when empty) but those of tasks, without a registry."""
    for image in select_images(names - {TASK_IMAGES}):
        builder.local(image.name)


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m images", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="operator, trainer, trainer-gpu, sandbox-base, tasks; default: all but trainer-gpu"
    )
    engine = os.environ.get("SWERL_IMAGE_ENGINE", "buildah")
    parser.add_argument("--store", action="store_true", help="keep them in the engine's own storage; push nothing")
    parser.add_argument("--engine", default=engine, choices=["buildah", "docker"])
    parser.add_argument("--registry", default=layout.registry(), help="as seen from here")
    parser.add_argument("--cluster-registry", help="as image references name it inside the cluster")
    parser.add_argument("--home", type=Path, default=layout.swerl_home() / "images")
    options = parser.parse_args(arguments)
    cluster_registry = layout.REGISTRY_NAME if options.registry.startswith("127.0.0.1:") else options.registry
    options.cluster_registry = options.cluster_registry or os.environ.get("SWERL_CLUSTER_REGISTRY") or cluster_registry
    return options


def main(arguments: list[str] | None = None) -> int:
    all_arguments = sys.argv[1:] if arguments is None else arguments
    image_arguments, command = (
        (all_arguments[: all_arguments.index("--")], all_arguments[all_arguments.index("--") + 1 :])
        if "--" in all_arguments
        else (all_arguments, [])
    )
    try:
        options = parse_options(image_arguments)
        if not shutil.which(options.engine):
            raise BuildError(
                f"no {options.engine} on PATH: `make cluster` installs buildah on Debian and Ubuntu; elsewhere install "
                "one of buildah and docker (SWERL_IMAGE_ENGINE=docker)"
            )
        enter_environment("images", all_arguments)
        builder = Builder(ImageBuilder(options.engine, options.registry, options.home), options.cluster_registry)
        if command:
            return builder.engine.run_in(builder.local(f"swe-rl/{options.names[-1]}"), ROOT, command)
        if options.store:
            store(builder, set(options.names))
        else:
            build(builder, set(options.names))
    except (BuildError, ClusterError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted; run the same command again to resume", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
