"""No image installs a Python package whose hash is not pinned, build tools included."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from images.catalogue import ROOT, project_images

DOCKERFILES = sorted((ROOT / "images").rglob("Dockerfile*"))
PINNED = sorted({path for image in project_images() for path in image.inputs if path.startswith("requirements/")})
INSTALL = re.compile(r"\bpip3? install\b")
PIN = re.compile(r"^[a-z0-9.-]+(\[[a-z0-9,]+\])?==[^\s;\\]+")


def installs(dockerfile: str) -> list[list[str]]:
    """The words of every `pip install` in a Dockerfile."""
    commands = re.split(r"&&|\n", dockerfile.replace("\\\n", " "))
    return [shlex.split(command) for command in commands if INSTALL.search(command) and not command.startswith("#")]


def unpinned(words: list[str]) -> str | None:
    """Why a command may install what no hash pins; None when it cannot."""
    if "--no-deps" not in words:
        return "it also installs what the packages depend on"
    after = words[words.index("install") + 1 :]
    if "-r" in after:
        return None if "--require-hashes" in after else "it lacks --require-hashes"
    named = [word for word in after if not word.startswith("-") and word != after[after.index("--python") + 1]]
    if any(not word.startswith("/tmp/") for word in named):
        return f"it names {named}"
    return None if "--no-build-isolation" in after else "it downloads the tools that build a folder"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("pip install --no-deps --require-hashes -r /tmp/requirements.txt", None),
        ("uv pip install --python /p --no-deps --no-build-isolation /tmp/sglang-kernel-cpu", None),
        ("pip install --no-deps -r /tmp/requirements.txt", "it lacks --require-hashes"),
        ("pip install --require-hashes -r /tmp/requirements.txt", "it also installs what the packages depend on"),
        ("pip install --python /p --no-deps uv", "it names ['uv']"),
        ("pip install --python /p --no-deps /tmp/folder", "it downloads the tools that build a folder"),
    ],
)
def test_command_that_a_hash_does_not_pin_is_found(command: str, reason: str | None) -> None:
    assert [unpinned(words) for words in installs(f"RUN true \\\n && {command} \\\n && true\n")] == [reason]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_dockerfile_installs_only_what_a_hash_pins(dockerfile: Path) -> None:
    reasons = [(" ".join(words), unpinned(words)) for words in installs(dockerfile.read_text())]
    assert [found for found in reasons if found[1]] == []


def test_commands_are_found_in_the_dockerfiles() -> None:
    assert sum(len(installs(path.read_text())) for path in DOCKERFILES) >= 8


@pytest.mark.parametrize("file", PINNED)
def test_every_package_has_a_version_and_hashes_and_no_address(file: str) -> None:
    text = (ROOT / file).read_text()
    packages = text.replace("\\\n", " ").strip().splitlines()
    assert [line for line in packages if not PIN.match(line) or "--hash=sha256:" not in line] == []
    assert packages and "://" not in text


def test_files_of_build_tools_are_checked() -> None:
    assert {"requirements/build.txt", "requirements/trainer-te-build.txt", "requirements/trainer-te.txt"} <= {*PINNED}
