"""Commands about episodes take the name of a SweRLJob where this machine has no such folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_agent.cli import episode_folder, main
from swerl_agent.jobs import JobCommandError

from tests.unit.agent.console.artifacts import PATCH, UNRESOLVED, episode, write_held_out, write_job, write_rollout
from tests.unit.agent.jobs.test_results import folder as output_of


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds the folders of all jobs of namespace `team`; the command runs elsewhere."""

    @asynccontextmanager
    async def client(options: Any) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(namespace="team")

    async def found(client: Any, namespace: str, name: str) -> str:
        if (namespace, (volume / name).is_dir()) != ("team", True):
            raise JobCommandError(f"namespace {namespace} has no SweRLJob {name}")
        return name

    @asynccontextmanager
    async def output(client: Any, job: str) -> AsyncIterator[Any]:
        yield output_of(volume / job)

    volume = tmp_path / "volume"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, replacement in (("open_client", client), ("find_job", found), ("job_output", output)):
        monkeypatch.setattr(episode_folder, name, replacement)
    return volume


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main([*words, "-o", "json"]) == code
    return json.loads(capsys.readouterr().out)


def test_episodes_of_a_job_are_listed_and_shown(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(volume / "one", steps=2, groups=1, size=4)
    listed = printed(capsys, "trajectories", "ls", "one")
    there = {str(path.parent.relative_to(volume)) for path in (volume / "one").rglob("meta.json")}
    assert listed["total"] == 8 and {each["path"] for each in listed["episodes"]} == there
    [path, other] = sorted(there)[:2]
    shown = printed(capsys, "trajectories", "show", path)
    assert (
        shown["path"] == path
        and shown["turns"]
        and shown == printed(capsys, "trajectories", "show", str(volume / path)) | {"path": path}
    )
    local = main(["trajectories", "diff", str(volume / path), str(volume / other), "-o", "json"])
    equal = json.loads(capsys.readouterr().out)["equal"]
    assert printed(capsys, "trajectories", "diff", path, other, code=local)["equal"] == equal


def test_grading_of_an_episode_of_a_job_is_shown(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_rollout(volume / "one", episode(patch=PATCH), replace(UNRESOLVED, log="E   assert 7 == 9\n"), 1)
    path = str(folder.relative_to(volume))
    expected = printed(capsys, "trajectories", "show", str(folder), "--grading")
    assert expected["grading"]["log"] == "E   assert 7 == 9\n"
    assert printed(capsys, "trajectories", "show", path, "--grading") == expected | {"path": path}


def test_two_jobs_are_compared_by_their_names(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job, solved in (("one", 2), ("other", 8)):
        write_job(volume / job, steps=1, groups=2, size=2)
        write_held_out(volume / job, 10, tasks=12, solved=solved)
    found = printed(capsys, "compare", "one", "other")
    assert (found["shared"], found["better"], found["worse"]) == (12, 6, 0)
    assert found == printed(capsys, "compare", str(volume / "one"), "other")


def test_episodes_of_a_job_are_exported(volume: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(volume / "one", steps=1, groups=1, size=4)
    target = str(tmp_path / "exported")
    found = printed(capsys, "trajectories", "export", "one", "--format", "atif", "--output", target)
    assert found["episodes"] == 4 and list((tmp_path / "exported").glob("*/*/agent/trajectory.json"))


def test_job_without_episodes_has_none(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (volume / "new").mkdir(parents=True)
    assert printed(capsys, "trajectories", "ls", "new")["total"] == 0


def test_folder_of_this_machine_counts_first(volume: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(volume / "one", steps=1, groups=1, size=4)
    write_job(Path("one"), steps=1, groups=1, size=2)
    assert printed(capsys, "trajectories", "ls", "one")["total"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ls", "absent"], "absent is not on this machine, and namespace team has no SweRLJob absent"),
        (["ls", "one", "-n", "other"], "namespace other has no SweRLJob one"),
        (["show", "one/artifacts/step-9"], "has no artifacts/step-9; `swerl trajectories ls one` prints paths"),
        (["show", "one/../one"], "does not exist"),
    ],
)
def test_wrong_place_is_one_line(
    volume: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    write_job(volume / "one", steps=1, groups=1, size=2)
    assert main(["trajectories", *words]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and message in output.err
