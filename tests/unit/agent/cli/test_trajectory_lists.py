"""`swerl trajectories ls`, `show` and `diff` over folders that the code of real runs wrote."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from swerl_agent.cli import main
from swerl_agent.cli.trajectory_lists import RESOLVED
from swerl_agent.console import query

from tests.unit.agent.console.artifacts import PATCH, UNRESOLVED, episode, write_evaluation, write_job, write_rollout
from tests.unit.agent.console.artifacts import RESOLVED as VERDICT


def swerl(verb: str, *arguments: str | Path) -> int:
    return main(["trajectories", verb, *map(str, arguments)])


def test_episodes_of_a_job_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_job(tmp_path / "job", steps=2, groups=1, size=4)
    assert swerl("ls", tmp_path / "job", "--resolved", "no") == 0
    heads, *rows = capsys.readouterr().out.splitlines()
    assert heads.split() == ["TASK", "STEP", "ROLLOUT", "VERDICT", "REWARD", "TURNS", "PATH"]
    assert [row.split()[:6] for row in rows] == [
        ["swe-rl__store-0", "2", "1", "unresolved", "-1", "2"],
        ["swe-rl__store-0", "1", "2", "unresolved", "-1", "2"],
    ]
    assert all((Path(row.split()[-1]) / "meta.json").is_file() for row in rows)


def test_filters_and_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evaluation(tmp_path / "eval", tasks=30, samples=4, solved=1)
    for given, total, printed in (
        ((), 120, 50),
        (("--limit", "110"), 120, 110),
        (("--limit", "200"), 120, 120),
        (("--task", "swe-rl__store-7"), 4, 4),
        (("--task", "swe-rl__store-7", "--status", "resolved"), 1, 1),
        (("--resolved", "lost"), 0, 0),
    ):
        assert swerl("ls", tmp_path / "eval", *given, "-o", "json") == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["total"], len(document["episodes"])) == (total, printed), given
        assert len({each["path"] for each in document["episodes"]}) == printed
    assert swerl("ls", tmp_path / "eval") == 0
    assert capsys.readouterr().out.endswith("70 episodes more; --limit prints more\n")
    assert {*RESOLVED} == query.RESOLVED.keys()


def test_listing_writes_nothing_into_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_evaluation(tmp_path / "eval")
    before = sorted(tmp_path.rglob("*"))
    assert swerl("ls", tmp_path / "eval") == 0
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "empty").mkdir()
    assert swerl("ls", tmp_path / "empty") == 0
    assert capsys.readouterr().out.endswith("no episodes\n")


def test_episode_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_rollout(tmp_path, episode(), VERDICT, 1)
    assert swerl("show", folder) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"swe-rl__store-4, submitted, reward 1\n{folder}\n\n--- system ---\n")
    heads = re.findall(r"^--- (.*) ---$", printed, re.MULTILINE)
    results = ["turn 1: result, exit code 0", "turn 2", "turn 2: result, exit code 0"]
    assert heads == ["system", "user", "turn 1", *results, "verdict: resolved", "patch"]
    assert "--- verdict: resolved ---\nFAIL_TO_PASS 1/1, PASS_TO_PASS 3/3\n" in printed
    assert printed.endswith(f"--- patch ---\n{PATCH}")
    assert swerl("show", folder, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["status"] == "resolved" and document["patch"] == PATCH
    assert "grep -rn total store" in document["turns"][0]["content"]
    assert document["turns"][0]["results"][0]["exit_code"] == 0


def test_tests_and_log_of_the_grading_are_shown_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_rollout(tmp_path, episode(), replace(UNRESOLVED, log="E   assert 7 == 9\n\x1b[2J"), 1)
    assert swerl("show", folder) == 0
    assert "test_total" not in capsys.readouterr().out
    assert swerl("show", folder, "--grading") == 0
    printed = capsys.readouterr().out
    assert "--- tests ---\nfailed    FAIL_TO_PASS tests/test_cart.py::test_total\n" in printed
    assert "--- grading log ---\nE   assert 7 == 9\n␛[2J\n\n--- patch ---" in printed
    assert swerl("show", folder, "--grading", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["grading"]["tests"][0]["outcome"] == "failed"
    older = write_rollout(tmp_path, episode(index=1), VERDICT, 1)
    assert swerl("show", older, "--grading") == 0
    assert "--- grading ---\nno log is kept" in capsys.readouterr().out


def test_hostile_texts_reach_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;mine\x07 \x1b[2J \x9b2J \u202e\ud800"
    one = episode(
        f"t{hostile}", commands=((f"echo {hostile}", hostile),), patch=f"+{hostile[:-1]}\udc80\n", exit_status=hostile
    )
    folder = write_rollout(tmp_path, one, VERDICT, 1)
    other = write_rollout(tmp_path, episode(index=1), VERDICT, 1)
    codes = [swerl("show", folder), swerl("show", folder, "-o", "json"), swerl("ls", tmp_path)]
    codes += [swerl("ls", tmp_path, "-o", "json"), swerl("diff", folder, other)]
    assert codes == [0, 0, 0, 0, 1]
    assert not set("\x1b\x07\x9b\u202e\ud800") & set(capsys.readouterr().out)


def test_patches_are_compared_as_diff_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patches = (PATCH, PATCH, PATCH.replace("count for", "n for"), PATCH.rstrip("\n"))
    one, equal, other, cut = (
        write_rollout(tmp_path, episode(index=index, patch=patch), VERDICT, 1) for index, patch in enumerate(patches)
    )
    assert swerl("diff", one, equal) == 0
    assert capsys.readouterr().out == ""
    assert swerl("diff", one, other) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"--- {one}/patch.diff\n+++ {other}/patch.diff\n@@ ")
    assert "\n++        return sum(price * n for price, count in self.items())\n" in printed
    assert swerl("diff", one, cut) == 1
    assert capsys.readouterr().out.endswith("\\ No newline at end of file\n")
    assert swerl("diff", one, equal, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"equal": True, "diff": []}
    assert swerl("diff", one, other, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found == {"equal": False, "diff": printed.splitlines()}


@pytest.mark.parametrize("command", [("ls", "absent"), ("show", "absent"), ("diff", "absent", "absent")])
def test_wrong_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    verb, *names = command
    assert swerl(verb, *(tmp_path / name for name in names)) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and "absent" in printed.err
