"""How `swerl` starts, answers wrong usage, completes words, and prints results."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from swerl_agent import RELEASE
from swerl_agent.cli import main, parse, root

from tests.unit.agent.tasks.rows import jsonl

ENGINE = ["--engine", "http://h:1", "--tokenizer", "t"]
ROW = {
    "instance_id": "kit__kit-1",
    "repo": "kit/kit",
    "base_commit": "a" * 40,
    "problem_statement": "It breaks.",
    "patch": "diff --git a/x b/x\n",
    "eval_script": "true",
    "FAIL_TO_PASS": ["t::a"],
    "image": "kit:1",
}
EVAL = ["eval", "run", "tasks", "--output", "out"]
START = """
import sys
from swerl_agent.cli import main
code = main([{argument!r}])
heavy = {{"aiohttp", "jinja2", "pydantic", "swerl_api", "swerl_kube", "transformers", "yaml"}}
print("loaded", *(heavy & sys.modules.keys()))
sys.exit(code)
"""


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_start_imports_no_command(argument: str) -> None:
    program = [sys.executable, "-c", START.format(argument=argument)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "loaded"


def test_start_takes_300_milliseconds() -> None:
    assert min(seconds_of_start() for _ in range(3)) < 0.3


def seconds_of_start() -> float:
    """Processor time, which other programs of the machine change little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "swerl_agent.cli", "--help"], capture_output=True, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_version_is_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"swerl {RELEASE}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grade", "p", "--tasks", "t", "--jobs", "0"], "swerl grade: Invalid value for '--jobs' / '-j': 0 is not pos"),
        (["sandbox", "run", "i", "ls", "--timeout", "-3"], "'--timeout': -3 is not a finite number from 0"),
        (["sandbox", "run", "i", "ls", "--timeout", "nan"], "'--timeout': nan is not a finite number from 0"),
        (["sandbox", "run", "i", "ls", "--cpu", "lots"], "'--cpu': 'lots' is not a Kubernetes quantity above 0"),
        (["serve", "--tokenizer", "t", "--port", "99999"], "'--port': 99999 is not a port from 0 to 65535"),
        (["view", "f", "--port", "x"], "'--port': 'x' is not a whole number"),
        ([*EVAL, *ENGINE, "--temperature", "-1"], "'--temperature': -1 is not a finite number from 0"),
        ([*EVAL, "--engine", "127.0.0.1:9"], "'--engine': '127.0.0.1:9' has no scheme; use http://127.0.0.1:9"),
        ([*EVAL, "--engine", "http://h:99999"], "'http://h:99999' is no URL: Port out of range"),
        ([*EVAL, "--engine", "http://[::1"], "'http://[::1' is no URL: Invalid IPv6 URL"),
        ([*EVAL, "--engin", "http://h"], "swerl eval run: No such option '--engin'"),
        (["eval", "rum"], "swerl eval: No such command 'rum'; did you mean run?"),
        (["lgos", "demo"], "swerl: No such command 'lgos'; did you mean logs?"),
        (["quux"], "swerl: No such command 'quux'. (swerl --help lists the options)"),
        (["validate", "absent.yaml"], "swerl: absent.yaml cannot be read: No such file or directory; name a YAML file"),
        (["grade", "--tasks", "t"], "no input: give one of PREDICTIONS, --gold, --logs"),
        (["grade", "p", "--gold", "--tasks", "t"], "PREDICTIONS and --gold exclude each other"),
        (["tasks", "list"], "swerl tasks list: Missing argument 'PATH...'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    (line,) = output.err.splitlines()
    assert message in line and not output.out


def test_group_without_a_verb_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 2
    assert "check each reference fix" in " ".join(capsys.readouterr().err.replace("that ", "").split())


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None, f"{path} lists {name}"
        found += commands(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", commands(root), ids=" ".join)
def test_every_command_has_a_help_page(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0
    usage = capsys.readouterr().out
    assert usage.startswith(f"Usage: swerl {' '.join(path)}")
    assert all(name in usage for name in ("--kubeconfig", "--context", "--namespace")) or "--kubeconfig" not in usage


def test_words_after_the_dashes_are_a_command_and_its_arguments() -> None:
    assert parse(["sandbox", "run", "image", "--workdir", "/src", "--", "ls", "-la"]).words == ("ls", "-la")
    assert parse(["sandbox", "run", "image", "pwd; ls", "--workdir", "/src"]).words == ("pwd; ls",)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("swerl ta", {"tasks"}), ("swerl tasks l", {"list"}), ("swerl eval run --work", {"--workers", "--workdir"})],
)
def test_shell_completes_commands_and_options(words: str, expected: set[str]) -> None:
    environment = os.environ | {
        "_SWERL_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = [sys.executable, "-m", "swerl_agent.cli"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_names_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_SWERL_COMPLETE=" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [["eval", "run"], ["tasks", "check"]])
def test_refused_endpoint_leaves_no_folder_behind(tmp_path: Path, verb: list[str]) -> None:
    source = str(jsonl(tmp_path / "rows.jsonl", ROW))
    output = ["--output", str(tmp_path / "new" / "out"), "--kubeconfig", str(tmp_path / "none")]
    chat = ["--engine", "http://127.0.0.1:9/v1", "--api", "chat-completions", "--model", "m"]
    assert main([*verb, source, *output, *(chat if verb[0] == "eval" else [])]) in (2, 3)
    assert not (tmp_path / "new").exists()


def test_results_are_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(jsonl(tmp_path / "rows.jsonl", ROW))
    assert main(["tasks", "list", source, "-o", "json"]) == 0
    counts = {"fail_to_pass": 1, "pass_to_pass": 0}
    assert json.loads(capsys.readouterr().out) == [{"instance_id": "kit__kit-1", "image": "kit:1", **counts}]
    assert main(["tasks", "images", source, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["kit:1"]
    written = tmp_path / "out.jsonl"
    assert main(["tasks", "import", source, "--output", str(written), "--output-format", "json"]) == 0
    files = [str(tmp_path / "out.grading.jsonl"), str(written)]
    assert json.loads(capsys.readouterr().out) == {"tasks": 1, "files": files, "malformed_rows": 0}


@pytest.mark.parametrize("verb", [["tasks", "list"], ["trajectories", "show"]])
def test_folder_that_does_not_exist_is_named_as_such(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb, str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"swerl: {tmp_path / 'none'} does not exist; ")
