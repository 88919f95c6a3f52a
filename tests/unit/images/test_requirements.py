"""The environments of GPU image and operator resolve: no GPU, no image and no other machine is needed to see that a pin
cannot be installed.

These tests ask the package registry that uv is configured with.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parents[3] / "requirements"
UV = Path(sys.prefix) / "bin/uv"
GPU_IMAGE = "x86_64-manylinux_2_39"  # of its base
TARGET = ["--python-version", "3.12", "--python-platform", GPU_IMAGE]
PIN = re.compile(r"^([a-z0-9.-]+)==([^\s;\\]+)", re.MULTILINE)


def uv(*arguments: str | Path) -> str:
    """What uv prints of `uv pip ARGUMENTS`, progress included."""
    done = subprocess.run([UV, "pip", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def pinned(*files: str) -> dict[str, str]:
    """Version of each package in `files`."""
    return {name: version for file in files for name, version in PIN.findall((REQUIREMENTS / file).read_text())}


def resolved(*inputs: str, within: tuple[str, ...] = ("trainer-gpu.txt",)) -> dict[str, str]:
    """Version of each package that `inputs` of the image need, within the pins of these files."""
    files = [REQUIREMENTS / name for name in inputs]
    constraints = [word for name in within for word in ("--constraint", REQUIREMENTS / name)]
    return dict(PIN.findall(uv("compile", *TARGET, "--no-annotate", "--no-header", *constraints, *files)))


def test_pins_are_all_that_the_image_needs() -> None:
    assert resolved("trainer.in") == pinned("trainer-gpu.txt")


def test_transformer_engine_fits_the_pins() -> None:
    files = ("trainer-gpu.txt", "trainer-te.txt")
    found = resolved("trainer.in", "trainer-te.in", within=files)
    assert found == pinned(*files)
    assert found.keys() >= {"transformer-engine", "transformer-engine-torch", "transformer-engine-cu13"}


@pytest.mark.parametrize("name", ["build", "trainer-te-build"])
def test_pins_are_all_that_the_tools_of_the_build_need(name: str) -> None:
    """Beside what the image has."""
    files = (f"{name}.txt", "trainer-gpu.txt")
    needed = resolved(f"{name}.in", within=files)
    assert pinned(f"{name}.txt").items() <= needed.items() <= pinned(*files).items()


@pytest.mark.parametrize(
    ("file", "python", "platform"),
    [
        ("build.txt", "3.12", GPU_IMAGE),
        ("trainer-gpu.txt", "3.12", GPU_IMAGE),
        ("trainer-te-build.txt", "3.12", GPU_IMAGE),
        ("operator.txt", "3.13", "x86_64-manylinux_2_40"),
        ("operator.txt", "3.13", "aarch64-manylinux_2_40"),
    ],
)
def test_every_pin_has_a_wheel_for_the_image(file: str, python: str, platform: str, tmp_path: Path) -> None:
    """With one of the pinned hashes; nothing but Transformer Engine is compiled."""
    options = ["--dry-run", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", tmp_path / "site"]
    target = ["--python-version", python, "--python-platform", platform]
    said = uv("install", *options, *target, "--requirements", REQUIREMENTS / file)
    assert f"Would install {len(pinned(file))} packages" in said
