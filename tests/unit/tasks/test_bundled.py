"""The bundled tasks are sound: rendered from their sources, solved by gold, not by nothing, and fairly held out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from swerl_agent.tasks import load_tasks

from tasks.build import differences, render_all
from tasks.catalogue import FOLDER, SPLITS, CatalogueEntry, load_catalogue
from tasks.repository import RepositoryError, git, write_repository

ENTRIES = load_catalogue()
OUTCOMES = Path(__file__).with_name("outcomes.py")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every task's repository at its base commit with the tests of test.patch applied."""
    root = tmp_path_factory.mktemp("repositories")
    for entry in ENTRIES:
        write_repository(entry, root / entry.instance_id)
        git(root / entry.instance_id, "apply", str(rendered(entry) / "test.patch"))
    return {entry.instance_id: root / entry.instance_id for entry in ENTRIES}


def rendered(entry: CatalogueEntry) -> Path:
    return FOLDER / entry.split / "tasks" / entry.instance_id


def expected(entry: CatalogueEntry) -> tuple[set[str], set[str]]:
    tests = json.loads((rendered(entry) / "tests.json").read_text())
    failing, passing = ({name.rpartition("::")[2] for name in tests[key]} for key in ("FAIL_TO_PASS", "PASS_TO_PASS"))
    return failing, passing


def outcomes(repositories: dict[str, Path], entries: Iterable[CatalogueEntry]) -> dict[str, dict[str, bool]]:
    arguments = [f"{repositories[entry.instance_id]}:{entry.test_path}" for entry in entries]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, str(OUTCOMES), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, dict[str, bool]] = json.loads(done.stdout)
    return found


def test_rendered_tasks_are_up_to_date() -> None:
    assert differences(render_all()) == []


def test_there_are_enough_tasks_of_both_splits() -> None:
    splits = Counter(entry.split for entry in ENTRIES)
    assert splits["train"] >= 32
    assert splits["held_out"] >= 12
    assert len({entry.package for entry in ENTRIES}) >= 6


def test_held_out_pairs_are_new_while_their_file_and_kind_are_not() -> None:
    trained = [entry for entry in ENTRIES if entry.split == "train"]
    pairs = {(entry.module, entry.kind) for entry in trained}
    for entry in ENTRIES:
        if entry.split == "held_out":
            assert (entry.module, entry.kind) not in pairs
            assert entry.module in {module for module, _ in pairs}
            assert entry.kind in {kind for _, kind in pairs}


def test_rendered_prompts_reach_the_agent() -> None:
    for split in SPLITS:
        tasks = load_tasks(FOLDER / split, format="swebench-task-repo")
        assert {task.instance_id for task in tasks} == {e.instance_id for e in ENTRIES if e.split == split}


def test_empty_patch_fails_exactly_fail_to_pass_and_gold_passes_all(repositories: dict[str, Path]) -> None:
    outcomes_before = outcomes(repositories, ENTRIES)
    for entry in ENTRIES:
        failing, passing = expected(entry)
        assert failing
        assert passing
        assert outcomes_before[entry.instance_id] == {name: name in passing for name in failing | passing}, (
            entry.instance_id
        )
        folder = repositories[entry.instance_id]
        git(folder, "apply", str(rendered(entry) / "gold.patch"))
        for path in (entry.path, entry.test_path):
            assert (folder / path).read_text() == entry.read(path), entry.instance_id
    one_per_module = {entry.module: entry for entry in ENTRIES}.values()  # gold trees of a module are the same
    for instance_id, passed in outcomes(repositories, one_per_module).items():
        assert all(passed.values()), instance_id


def test_one_sed_of_the_demo_protocol_repairs_every_task(tmp_path: Path) -> None:
    for entry in ENTRIES:
        module = tmp_path / entry.instance_id / entry.path
        module.parent.mkdir(parents=True)
        module.write_text(entry.broken())
    commands = [f"sed -i 's|{e.bad}|{e.good}|' {e.instance_id}/{e.path}" for e in ENTRIES]
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=tmp_path, check=True)
    for entry in ENTRIES:
        assert (tmp_path / entry.instance_id / entry.path).read_text() == entry.read(entry.path), entry.instance_id


def test_repository_is_clean_has_a_history_and_names_its_base_commit(tmp_path: Path) -> None:
    entry = ENTRIES[0]
    base = write_repository(entry, tmp_path / "one")
    assert write_repository(entry, tmp_path / "two") == base
    assert f"base_commit: {base}" in (rendered(entry) / "task.yaml").read_text()
    assert git(tmp_path / "one", "status", "--short") == ""
    subjects = git(tmp_path / "one", "log", "--format=%s").splitlines()
    assert f"Tidy {entry.function}" in subjects
    assert len(subjects) >= 5


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RepositoryError, match="not empty"):
        write_repository(ENTRIES[0], tmp_path)
