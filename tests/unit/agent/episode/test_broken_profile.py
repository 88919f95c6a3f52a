"""A login profile that the agent broke costs the patch nothing: real sessions, shells and git."""

from __future__ import annotations

from pathlib import Path

import pytest
from swerl_agent.episode.baseline import Baseline, Patch
from swerl_agent.sandbox import Session

from tests.unit.agent.sandbox.conftest import ImageFolder, image_folder

__all__ = ["image_folder"]

PROFILES = {
    "it ends the shell": "exit 0",
    "it ends the shell with an error": "echo leaving; exit 9",
    "it becomes another program": "exec true",
    "it hangs": "sleep 1000",
    "it leads to no program": "PATH=/nowhere",
    "it leads to another git": "mkdir -p ~/b; printf '#!/bin/sh\n' >~/b/git; chmod +x ~/b/git; PATH=$HOME/b:$PATH",
    "it prints": "echo welcome; echo home >&2",
    "it prints nothing any more": "exec >/dev/null 2>&1",
    "its functions do other things": 'git() { :; }; cat() { :; }; cd() { command cd "$@" && ls; }',
    "it stops at errors": "set -e; set -u",
    "it cannot be read": "if [ ; then",
    "it sets variables of git": "export GIT_DIR=/nowhere GIT_INDEX_FILE=/nowhere/index GIT_EXTERNAL_DIFF=true",
}


@pytest.mark.parametrize("image_folder", ["dash", "bash", "busybox"], indirect=True)
@pytest.mark.parametrize("profile", PROFILES)
async def test_the_patch_is_whole_and_nothing_is_left_out(
    image_folder: ImageFolder, repository: Path, profile: str
) -> None:
    image_folder.variables |= {"TMPDIR": str(repository.parent), "GIT_CONFIG_SYSTEM": str(repository.parent / "system")}
    (image_folder.home / ".profile").write_text(f"export PATH={image_folder.path}\n")
    session = Session(image_folder)
    baseline = Baseline(session, str(repository), {}, diff_timeout=5)
    baseline.begin()
    await baseline.ready()
    await session.run("sed -i s/41/42/ kit.py; echo new >new.py", timeout=20, cwd=str(repository))
    with (image_folder.home / ".profile").open("a") as file:
        file.write(PROFILES[profile] + "\n")
    await session.run("true", timeout=1)  # its shell is older than the change
    patch = await baseline.patch()
    await session.close()
    await image_folder.finish()
    image_folder.remove_state(session)
    changes = [line for line in patch.text.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert changes == ["-answer = 41", "+answer = 42", "+new"]
    assert patch == Patch(patch.text)
