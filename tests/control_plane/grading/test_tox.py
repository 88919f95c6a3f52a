"""Verdicts where tox runs the tests: only the fix is resolved, also beside files that tox itself would load."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import pytest_asyncio
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_kube import KubeClient

from cluster.layout import swerl_home

from .cheats import Cheat
from .conftest import settings
from .task_image import SOURCE, Repository, push_image
from .test_other_runners import PATCHES, REASONS

TOX = ("tox==4.32.0", "tox-current-env==0.0.16")
CONFIGURATION = """[tox]
skipsdist = true
[testenv]
commands = python3 -m pytest -rA -p no:cacheprovider {posargs}
"""
LAUNCHER = "import sys\nsys.path.insert(0, '/opt/tox')\nfrom tox.run import run\nrun()\n"
COMMAND = "python3 /opt/tox/tox.py --current-env -e py3 -v -- tests/test_calc.py"
LINE = "PASSED tests/test_calc.py::test_clamp\nPASSED tests/test_calc.py::test_double\n"
PLUGIN = f"import os\nos.write(1, {LINE!r}.encode())\nos._exit(0)\n"
ALWAYS = CONFIGURATION.replace("python3 -m pytest", "python3 -c \"print('PASSED tests/test_calc.py::test_clamp')\"")
CHEATS = {
    "toxfile": Cheat({"toxfile.py": PLUGIN}, "removed toxfile.py"),
    "tox.ini": Cheat({"tox.ini": ALWAYS}, "restored tox.ini"),
    "tox.toml": Cheat({"tox.toml": "env_run_base.commands = [['true']]\n"}, "removed tox.toml"),
    "a tox of its own": Cheat({"tox.py": PLUGIN}, "removed tox.py"),
    "a virtualenv of its own": Cheat({"virtualenv/__init__.py": PLUGIN}, "removed virtualenv/__init__.py"),
    "exits": Cheat({"calc.py": PLUGIN + SOURCE}, "cut short"),
}


def unpacked_tox(folder: Path) -> Path:
    """`folder` with opt/tox, which holds tox and what it needs."""
    wheels = swerl_home() / "sdists" / "tox-4.32.0"
    if not wheels.is_dir():
        partial = wheels.with_suffix(".partial")
        pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--python-version", "3.13"]
        subprocess.run([*pip, "-d", str(partial), *TOX], check=True)
        partial.rename(wheels)
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder / "opt/tox")
    (folder / "opt/tox/tox.py").write_text(LAUNCHER)
    return folder


@pytest.fixture(scope="module")
def tox_repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("calc"), {"tox.ini": CONFIGURATION})


@pytest.fixture(scope="module")
def tox_task(tox_repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Task:
    image = push_image(tox_repository, outside=unpacked_tox(tmp_path_factory.mktemp("tox")))
    return tox_repository.task(image, command=COMMAND)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verdicts(kubeconfig: str, namespace: str, tox_task: Task, tox_repository: Repository) -> dict[str, Verdict]:
    """The verdict of every patch."""
    patches = {name: {"calc.py": text} for name, text in PATCHES.items()} | {
        name: cheat.files for name, cheat in CHEATS.items()
    }
    async with (
        KubeClient.from_environment(kubeconfig) as client,
        Grader(client, namespace, settings(max_concurrent=5)) as grader,
    ):
        graded = [grader.grade(tox_task, tox_repository.patch(dict(files))) for files in patches.values()]
        return dict(zip(patches, await asyncio.gather(*graded), strict=True))


def test_fix_is_resolved(verdicts: dict[str, Verdict]) -> None:
    gold = verdicts["gold"]
    assert gold.resolved and gold.report["witnessed"] and gold.report["contrast"] == "held", gold


@pytest.mark.parametrize("name", REASONS)
def test_other_code_does_not_score_and_is_named(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.status == "unresolved", verdict
    assert re.search(REASONS[name], verdict.detail), verdict


@pytest.mark.parametrize("name", CHEATS)
def test_files_that_tox_would_load_are_removed(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    assert verdict.status == "unresolved", verdict
    assert CHEATS[name].is_named(verdict), verdict
