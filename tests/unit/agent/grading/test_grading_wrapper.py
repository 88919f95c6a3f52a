"""The grading wrapper itself, run on this machine on real git repositories."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from swerl_agent.grading.eval_script import END, START, instrumented
from swerl_agent.grading.framing import HEAD_BYTES, TAIL_BYTES, Framer

from .wrapper import IN_PID_NAMESPACE, WRAPPER, diff_of, git, grade, repository

__all__ = ["repository"]


def test_patch_is_there_when_the_script_runs(repository: Path, tmp_path: Path) -> None:
    patch = diff_of(repository, {"a.py": "one\n2\nthree\n"})
    report = grade(repository, tmp_path / "p", patch=patch, script="cat a.py; echo $TZ $PYTHONHASHSEED; exit 4")
    assert report.log == b"one\n2\nthree\nUTC 0\n"
    assert (report.stage, report.exit_code) == ("eval", 4)


def test_later_objects_are_gone_before_the_patch_is_there(repository: Path, tmp_path: Path) -> None:
    (repository / "a.py").write_text("the fix of tomorrow\n")
    git(repository, "commit", "-q", "-a", "-m", "fix")
    fix = git(repository, "rev-parse", "HEAD:a.py").strip()
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    patch = diff_of(repository, {"a.py": "one\n2\nthree\n"})
    report = grade(repository, tmp_path / "p", patch=patch, script=f"cat a.py; git cat-file -p {fix}; true")
    assert report.scrubbed == "removed"
    assert report.log.startswith(b"one\n2\nthree\nfatal:"), report.log


def test_repository_of_sha256_objects_is_graded(repository: Path, tmp_path: Path) -> None:
    shutil.rmtree(repository / ".git")
    git(repository, "init", "-q", "--object-format=sha256")
    git(repository, "add", "-A", ":!kit.egg-info")
    git(repository, "commit", "-q", "-m", "base")
    patch = diff_of(repository, {"a.py": "one\n2\nthree\n", "tests/test_a.py": None, "new.bin": "\0\1"})
    report = grade(repository, tmp_path / "p", patch=patch, script="git status --porcelain; cat tests/test_a.py")
    assert report.log.decode().splitlines() == [" M a.py", "?? kit.egg-info/", "?? new.bin", "t"]
    assert report.scrubbed in ("clean", "removed")


def test_no_line_ends_the_script_early(repository: Path, tmp_path: Path) -> None:
    lines = ["EOF", "EOF_114329324912 ", "'EOF'", "PATCH", "eval.sh", "COMPLETE", ""]
    script = "cat <<'EOF_114329324912'\n" + "\n".join(lines) + "\nEOF_114329324912\necho last"
    report = grade(repository, tmp_path / "p", patch="", script=instrumented(script))
    between = report.log.decode().split(START + "\n")[1].split(END)[0]
    assert between.splitlines()[: len(lines) + 1] == [*lines, "last"]


LEAVES_PROCESS = """python3 -c '
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        print(os.getpid(), file=open("left", "w"), flush=True)
        time.sleep(60)
'
until [ -s left ]; do sleep 0.1; done
sleep 60 & own=$!
"""
COUNT_PROCESSES = "ls -d /proc/$(cat left) /proc/$own 2> /dev/null | wc -l"


def test_processes_of_installation_steps_end_before_the_tests(repository: Path, tmp_path: Path) -> None:
    script = f"{LEAVES_PROCESS}{COUNT_PROCESSES}\n: '{START}'\n{COUNT_PROCESSES}; ls -d /proc/$own\n: '{END}'\n"
    report = grade(repository, tmp_path / "p", patch="", script=instrumented(script), under=IN_PID_NAMESPACE)
    before, after, own = report.log.split()[:3]
    assert (before, after) == (b"2", b"1") and own.startswith(b"/proc/"), "a job of the script itself continues"
    assert (report.ended, report.test_starts) == (("python3",), 1)


def test_outcome_reported_by_other_code_is_counted(repository: Path, tmp_path: Path) -> None:
    early = "printf . > $SWERL_WITNESS_FOLDER/gate"
    script = f"{early}\n: '{START}'\necho tests\n: '{END}'\n"
    report = grade(repository, tmp_path / "p", patch="", script=instrumented(script), under=IN_PID_NAMESPACE)
    assert report.test_starts == 2


def test_no_key_exists_before_the_tests_begin(repository: Path, tmp_path: Path) -> None:
    read_key_command = "timeout 1 cat $SWERL_WITNESS_FOLDER/key.0 && echo stolen"
    script = f"{read_key_command}\n: '{START}'\ntimeout 5 head -n 1 $SWERL_WITNESS_FOLDER/key.0\n: '{END}'\n"
    report = grade(repository, tmp_path / "p", patch="", script=instrumented(script), under=IN_PID_NAMESPACE)
    assert b"stolen" not in report.log
    assert report.keys[0].encode() in report.log


def test_tests_can_be_interrupted(repository: Path, tmp_path: Path) -> None:
    script = "python3 -c 'import signal; print(signal.getsignal(signal.SIGINT))'"
    report = grade(repository, tmp_path / "p", patch="", script=script, under=IN_PID_NAMESPACE)
    assert b"default_int_handler" in report.log


def test_protected_files_are_put_back_and_new_ones_removed(repository: Path, tmp_path: Path) -> None:
    patch = diff_of(
        repository,
        {
            "a.py": "kept\n",
            "check.py": "pass\n",
            "tests/conftest.py": "forge\n",
            "tests/test_a.py": None,
            "conftest.py": "forge\n",
            "sub/sitecustomize.py": "forge\n",
            "sub/deep/setup.cfg": "forge\n",
            "sub/.coveragerc": "forge\n",
            "pytest.py": "forge\n",
            "locked/x.txt": "changed\n",
            "locked/open.txt": "changed\n",
            "new_module.py": "fine\n",
        },
    )
    script = "git status --porcelain -uall; cat kit.egg-info/entry_points.txt"
    report = grade(repository, tmp_path / "p", patch=patch, script=script)
    assert report.log.decode().splitlines() == [
        " M a.py",
        " M locked/open.txt",
        "?? kit.egg-info/entry_points.txt",
        "?? new_module.py",
        "installed",
    ]
    assert {r"removed\ conftest.py", r"removed\ sub/deep/setup.cfg"} <= set(report.notes)
    assert r"restored\ tests/test_a.py" in report.notes


def test_protected_files_are_restored_with_a_stale_git_index(repository: Path, tmp_path: Path) -> None:
    """As in every image: its index knows the files' times and inodes of another machine."""
    for number in range(1500):
        (repository / f"file-{number}.txt").write_text(str(number) * 1000)
    git(repository, "add", "-A", ":!kit.egg-info")
    git(repository, "commit", "-q", "-m", "many files")
    patch = diff_of(repository, {"tests/conftest.py": "forge\n", "tests/test_a.py": "forge\n"})
    for path in repository.glob("*.txt"):
        os.utime(path, (1, 1))
    report = grade(repository, tmp_path / "p", patch=patch, script="cat tests/conftest.py tests/test_a.py")
    assert report.log == b"hooks\nt\n"


def test_protected_file_that_cannot_be_put_back_is_no_grading(repository: Path, tmp_path: Path) -> None:
    patch = diff_of(repository, {"tests/conftest.py": "forge\n"})
    blob = git(repository, "rev-parse", "HEAD:tests/conftest.py").strip()
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    os.utime(repository / "tests/conftest.py", (1, 1))  # as in images: git stores again what changed in this second
    report = grade(repository, tmp_path / "p", patch=patch)
    assert report.stage == "restore_failed"
    assert b"unable to read" in report.log


def test_installed_entry_point_cannot_be_rewritten(repository: Path, tmp_path: Path) -> None:
    patch = (
        "diff --git a/kit.egg-info/entry_points.txt b/kit.egg-info/entry_points.txt\n"
        "--- a/kit.egg-info/entry_points.txt\n+++ b/kit.egg-info/entry_points.txt\n@@ -1 +1 @@\n-installed\n+forged\n"
    )
    report = grade(repository, tmp_path / "p", patch=patch, script="cat kit.egg-info/entry_points.txt")
    assert report.log == b"installed\n"


def test_time_limit_ends_the_script(repository: Path, tmp_path: Path) -> None:
    report = grade(repository, tmp_path / "p", patch="", script="echo begun; sleep 60", limit=1)
    assert (report.exit_code, report.log) == (124, b"begun\n")


def test_time_limit_ends_a_script_that_stops_its_timer(repository: Path, tmp_path: Path) -> None:
    script = "echo begun; kill -STOP $PPID; sleep 60"
    report = grade(repository, tmp_path / "p", patch="", script=script, limit=1, under=IN_PID_NAMESPACE)
    assert (report.exit_code, report.log) == (137, b"begun\n")
    assert report.seconds < 40


def test_modules_that_shadow_are_removed_unless_their_package_is_older_or_new(repository: Path, tmp_path: Path) -> None:
    for name in ("src/core.py", "pkg/__init__.py", "pkg/checks/test_a.py"):
        (repository / name).parent.mkdir()
        (repository / name).write_text("")
    git(repository, "add", "src", "pkg")
    git(repository, "commit", "-q", "-m", "sources")
    added = ("src/__init__.py", "src/json.py", "pkg/json.py", "new/__init__.py", "new/json.py", "bare/json.py")
    added += ("pkg/part/types.py", "pkg/checks/json.py", "new2/part/types.py")
    patch = diff_of(repository, {name: f"# {name}\n" for name in added})
    report = grade(repository, tmp_path / "p", patch=patch, script="git status --porcelain -uall '*.py'")
    kept = [line.removeprefix("?? ") for line in report.log.decode().splitlines()]
    assert kept == [
        "new/__init__.py",
        "new/json.py",
        "new2/part/types.py",
        "pkg/json.py",
        "pkg/part/types.py",
        "src/__init__.py",
    ]
    assert set(report.notes) == {rf"removed\ {name}/json.py" for name in ("src", "bare", "pkg/checks")}


def test_modules_of_the_images_plugins_are_not_replaced(repository: Path, tmp_path: Path) -> None:
    folder = repository / "venv/lib/python3.12/site-packages/kit-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "entry_points.txt").write_text(
        "[console_scripts]\nkit = kit_cli:main\n[pytest11]\nkit = kit_plugin.a:b\n"
    )
    (repository / ".git/info/exclude").write_text("venv\n")
    patch = diff_of(repository, {"kit_plugin.py": "x\n", "kit_cli.py": "x\n"})
    report = grade(repository, tmp_path / "p", patch=patch, script="ls")
    assert report.notes == (r"removed\ kit_plugin.py",)
    assert b"kit_cli.py" in report.log


def test_long_log_keeps_both_ends(repository: Path, tmp_path: Path) -> None:
    report = grade(repository, tmp_path / "p", patch="", script="echo first; head -c 40000000 /dev/zero; echo last")
    assert report.total_bytes == 40_000_011
    assert len(report.log) == HEAD_BYTES + TAIL_BYTES + 1
    assert report.log.startswith(b"first\n")
    assert report.log.endswith(b"last\n")


def test_test_output_is_complete_after_long_output(repository: Path, tmp_path: Path) -> None:
    script = "head -c 40000000 /dev/zero; echo START; yes PASSED | head -c 20000000; echo END"
    report = grade(repository, tmp_path / "p", patch="", script=script)
    region = report.log[report.log.rindex(b"START") :]
    assert len(region) == 20_000_000 + len("START\nEND\n")
    assert report.left_out > 0


def test_runner_that_starts_late_is_not_killed_with_processes_of_the_patch(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_script = tmp_path / "slow.sh"
    busy_loop = "end=$((SECONDS + 2)); while ((SECONDS < end)); do :; done"  # not in a process that would be killed
    slow_script.write_text(f"set -T\ntrap 'case $BASH_COMMAND in base64*|settled*) {busy_loop} ;; esac' DEBUG\n")
    monkeypatch.setenv("BASH_ENV", str(slow_script))
    report = grade(repository, tmp_path / "p", patch="", script="sleep 4; seq 1000", under=IN_PID_NAMESPACE)
    assert report.log.decode().split() == [str(number) for number in range(1, 1001)]


def test_another_repository_is_refused(repository: Path, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    git(other_folder, "init", "-q")
    (tmp_path / "p").mkdir()
    for name in ("work_tree.sh", "survey.sh"):
        shutil.copy(WRAPPER.with_name(name), tmp_path / "p" / f"{name}.000")
    names = "eval.sh patch.diff tests.diff targets protected reserved exempt named created closed"
    for name in names.split():
        (tmp_path / "p" / f"{name}.000").write_text("")
    for folder, stage in ((other_folder, "wrong_base"), (tmp_path / "nowhere", "no_work_tree")):
        command = ["bash", str(WRAPPER), "a" * 40, str(folder), "5", "1", str(tmp_path / "p")]
        report = Framer().feed(subprocess.run(command, capture_output=True, check=True).stdout)
        assert report
        assert report.stage == stage


def test_untracked_files_survive_a_patch_applied_at_the_second_try(repository: Path, tmp_path: Path) -> None:
    patch = diff_of(repository, {"a.py": "one\n2\nthree\n", "new.txt": "new\n"})
    patch = patch.replace(" three\n", " thrEe\n")  # git refuses the context, patch takes it
    for name in ("run_tests.sh", "r2e_tests/test_1.py", ".venv/bin/python"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("untracked\n")
    report = grade(
        repository, tmp_path / "p", patch=patch, script="cat run_tests.sh r2e_tests/* .venv/bin/* new.txt a.py"
    )
    assert report.log.decode().split() == ["untracked"] * 3 + ["new", "one", "2", "three"]


def test_child_that_has_ended_is_not_running_before_it_is_collected() -> None:
    function = re.search(r"^is_running\(\) \{.*?^\}", WRAPPER.read_text(), re.M | re.S)
    assert function
    with subprocess.Popen(["sleep", "60"]) as child:
        running = subprocess.run(["bash", "-c", f"{function[0]}\nis_running {child.pid}"])
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = subprocess.run(["bash", "-c", f"{function[0]}\nis_running {child.pid}"])
    gone = subprocess.run(["bash", "-c", f"{function[0]}\nis_running {child.pid}"], capture_output=True)
    assert (running.returncode, ended.returncode, gone.returncode, gone.stderr) == (0, 1, 1, b"")
