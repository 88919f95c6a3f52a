"""Every command of every page is run by a test, or is one of EXCUSED, and a comment above it names what tests lack.

A shell block is checked command by command: programs have the verbs and options, the real parser reads `swerl`, and
RUN_BY names the test that runs such a command. `<!-- needs: gpu -->` above a block excuses its commands from that.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from swerl_agent.cli import parse

from .pages import ROOT, Block, blocks, inline, name, pages
from .programs import ASSIGNMENT, check_command

LANGUAGES = {"sh", "bash", "python", "yaml", "text"}
# Beginning of a command that no test runs → what it needs: a GPU, hours, or downloads of tens of gigabytes.
EXCUSED = {
    "make bench": {"hours"},
    "make tiny-model": {"hours"},
    "make bench-sandbox": {"hours"},
    "make gpu-check": {"gpu", "downloads"},
    "python3 -m images trainer-gpu": {"downloads"},
    "docker run --rm --gpus all": {"gpu", "downloads"},
    "python3 -m tests.gpu.steps": {"gpu"},
}
README = "tests/e2e/test_readme.py"
THIS_FILE = "tests/unit/docs/test_commands.py"
STEERING = "tests/control_plane/jobs_cli/test_steering.py"
CLUSTERS = "tests/e2e/test_clusters_page.py"
CONSOLE = "tests/control_plane/api/test_console.py"
RELEASES = "tests/control_plane/api/test_documented_releases.py"
EVALUATIONS = "tests/control_plane/grading/test_documented_evaluations.py"
IMPORTS = "tests/unit/agent/tasks/test_import_sources.py"
# Beginning of a command → the file that runs it, and the call that the file contains; the longest beginning counts.
RUN_BY = {
    "make demo": (README, "make demo"),
    "make demo-console": ("tests/unit/demo/test_console.py", 'main(["console"'),
    "make test": (".ci/run", "make test"),
    "make venv": ("Makefile", "lint: venv"),
    "make images": ("Makefile", "test-control-plane: venv cluster images"),
    "make cluster": ("Makefile", "test-control-plane: venv cluster images"),
    "make docs": ("tests/unit/website/test_site.py", '"-m", "website"'),
    "make release PUSH=": ("tests/docker/test_release.py", '"-m", "release", f"--push={registry}"'),
    "make release IMAGES=no": ("tests/control_plane/api/test_release.py", '"-m", "release", "--images", "no"'),
    "make help": (THIS_FILE, '"make", "help"'),
    "export PYTHONPATH=": ("Makefile", "export PYTHONPATH"),
    "python -m pytest": ("Makefile", "-m pytest -q"),
    "export KUBECONFIG=": (README, "export KUBECONFIG=~/.cache/swerl/cluster/kubeconfig"),
    "kubectl get swerl": (README, "kubectl get swerl"),
    "kubectl get swesandboxes": (README, "kubectl get swesandboxes"),
    "kubectl get sweeval": ("tests/control_plane/api/test_admission.py", 'kubectl("get", "sweeval"'),
    "kubectl get nodes": ("tests/control_plane/cluster/test_node.py", 'kubectl("get", "nodes")'),
    "kubectl apply -f swerljob.yaml": (README, "kubectl apply -f swerljob.yaml"),
    "kubectl apply -f examples/": ("tests/control_plane/api/test_admission.py", 'kubectl("apply", "--dry-run=server"'),
    "helm install swe-rl charts/": (README, "helm install swe-rl charts/"),
    "helm install swe-rl oci://": (RELEASES, 'command_of("docs/releases.md", "helm", "install", "swe-rl")'),
    "helm upgrade": (RELEASES, 'command_of("docs/console.md", "helm", "upgrade")'),
    "helm repo add": (RELEASES, 'command_of(page, "helm", "repo", "add")'),
    "helm upgrade --install": (RELEASES, 'command_of(page, "helm", "upgrade", "--install")'),
    "kubectl port-forward": (CONSOLE, '"port-forward", "-n", namespace, service'),
    "kubectl create token": (CONSOLE, 'kubectl("create", "token", account'),
    "helm install swe-rl charts/ --namespace swe-rl --create-namespace --set kuberay.install": (
        "tests/control_plane/api/test_kuberay.py",
        '"kuberay.install=true"',
    ),
    "kubectl patch --local": ("tests/control_plane/api/test_admission.py", '"patch", "--local"'),
    "kubectl krew install": ("tests/unit/release/test_krew.py", '"kubectl", "krew", "install"'),
    "swerl doctor": ("tests/control_plane/api/test_doctor.py", '"doctor", "--output", "json"'),
    **dict.fromkeys(
        (
            "export REGISTRY=",
            "sed -i",
            "kubectl apply -k",
            "kubectl wait",
            "helm install swe-rl charts/ --namespace swe-rl",
        ),
        (CLUSTERS, "commands()"),
    ),
    "kubectl apply -f examples/swe-gym-qwen3-4b/": (CLUSTERS, "commands()"),
    "swerl init": ("tests/unit/agent/cli/test_jobs.py", 'main(["init"'),
    "swerl validate": (STEERING, 'swerl("validate"'),
    "swerl metrics": ("tests/unit/agent/cli/test_jobs.py", 'main(["metrics"'),
    "swerl compare": ("tests/unit/agent/cli/test_jobs.py", 'main(["compare"'),
    "swerl export": (STEERING, 'swerl("export"'),
    "swerl submit": (STEERING, 'swerl("submit"'),
    "swerl watch": (STEERING, 'swerl("watch"'),
    "swerl list": (STEERING, 'swerl("list"'),
    "swerl describe": (STEERING, 'swerl("describe"'),
    "swerl logs": (STEERING, 'swerl("logs"'),
    "swerl cancel": (STEERING, 'swerl("cancel"'),
    **dict.fromkeys(("swerl suspend", "swerl resume"), (STEERING, '("suspend", "true"), ("resume", "false")')),
    "swerl retry": (STEERING, 'swerl("retry"'),
    "swerl tasks import": (IMPORTS, '"swerl", "tasks", "import"'),
    "swerl tasks export": (IMPORTS, '"swerl", "tasks", "export"'),
    "swerl tasks images": (IMPORTS, '"swerl", "tasks", "images"'),
    "swerl images check": ("tests/unit/agent/cli/test_images_check.py", '"swerl", "images", "check"'),
    "export MODEL_KEY=": (EVALUATIONS, '"MODEL_KEY": KEY'),
    "swerl tasks list": ("tests/unit/agent/cli/test_cli.py", 'main(["tasks", "list"'),
    "swerl tasks check": ("tests/e2e/test_bundled_tasks.py", '"tasks", "check"'),
    "swerl grade --gold": (EVALUATIONS, '"swerl", "grade", "--gold"'),
    "swerl grade": ("tests/control_plane/grading/test_predictions.py", '"swerl_agent.cli", "grade"'),
    "swerl episode run": (EVALUATIONS, '"swerl", "episode", "run"'),
    "swerl eval run": (EVALUATIONS, '"swerl", "eval", "run"'),
    "swerl serve": ("tests/unit/agent/server/test_command.py", '"serve", "--port"'),
    "swerl sandbox run": ("tests/control_plane/exec/test_cli.py", 'cli("run"'),
    "swerl sandbox shell": ("tests/control_plane/exec/test_cli.py", 'cli("shell"'),
    "swerl view": ("tests/unit/agent/console/test_command.py", '"swerl_agent.cli", "view"'),
    "swerl man": ("tests/unit/agent/cli/test_man.py", 'main(["man"'),
    "eval $(swerl completion": ("tests/unit/agent/cli/test_manners.py", '"completion", shell'),
    **{
        f"swerl trajectories {verb}": ("tests/unit/agent/cli/test_trajectory_lists.py", f'swerl("{verb}"')
        for verb in ("ls", "show", "diff")
    },
    "swerl trajectories audit": ("tests/unit/agent/audit/test_audit.py", '"trajectories", "audit"'),
    "swerl trajectories export": ("tests/unit/agent/trajectories/test_command.py", '"trajectories", "export"'),
    "swerl trajectories import": ("tests/unit/agent/trajectories/test_importing.py", '"trajectories", "import"'),
    "python -m swerl_agent.cli view": ("tests/unit/agent/console/test_command.py", '"swerl_agent.cli", "view"'),
    "python -m tasks.repository": (THIS_FILE, '"tasks.repository"'),
    "python -m swerl_trainer.plan": ("tests/unit/trainer/test_plan_command.py", "swerl_trainer.plan import main"),
    "python -m tests.bench.parity_bench": ("tests/control_plane/grading/test_parity.py", '"tests.bench.parity_bench"'),
}
FROM_THE_PAGE = {CLUSTERS}  # files that run the commands that they read from a page
OF_OTHERS = {"from-scripts.md"}  # pages about options of other programs
PROGRAM = re.compile(r"(make|swerl|kubectl|helm|uv|python3? -m)\b")


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_every_block_is_in_its_language(block: Block) -> None:
    assert block.language in LANGUAGES, f"{block}: name the language, one of {sorted(LANGUAGES)}"
    assert not block.needs or block.language == "sh"
    if block.language == "python":
        for module, names in imports(ast.parse(block.text)):
            assert set(names) <= set(dir(__import__(module, fromlist=names))), f"{block}: {module} lacks one of {names}"
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))
    elif block.language == "sh":
        for words in block.commands():
            check(words, block)


@pytest.mark.parametrize("script", sorted(ROOT.glob("examples/**/*.sh")), ids=name)
def test_commands_of_an_example_are_taken(script: Path) -> None:
    settings = dict(line.split("=", 1) for line in (script.parent / "settings.env").read_text().split() if "=" in line)
    lines = script.read_text().replace("\\\n", " ").splitlines()
    commands = [re.split(r" (?:\|\||>)", line)[0] for line in lines if line.startswith("swerl ")]
    assert commands
    for command in commands:
        words = shlex.split(command, comments=True)
        parse([settings.get(word.removeprefix("$"), word) for word in words[1:]])


@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_block_is_indented(page: Path) -> None:
    lines = page.read_text().splitlines()
    code = [line for before, line in zip(["", *lines], lines, strict=False) if not before and line.startswith("    ")]
    assert code == [], "use a fenced block with its language"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_inline_commands_and_options_exist(page: Path) -> None:
    for code in inline(page):
        if PROGRAM.match(code):
            check_command(shlex.split(code))
        for option in re.findall(r"^--[a-z][a-z-]+", code) if page.name not in OF_OTHERS else []:
            assert option in options(), f"{name(page)}: no command has the option {option}"


@pytest.mark.parametrize("begin", EXCUSED)
def test_excused_command_is_on_a_page_and_has_no_test(begin: str) -> None:
    assert not any(begin.startswith(run) for run in RUN_BY)
    excused = [" ".join(words) for block in blocks() if block.needs for words in block.commands()]
    assert any(begin in command for command in excused), f"no page excuses `{begin}`"


@pytest.mark.parametrize("begin", [begin for begin, (file, _) in RUN_BY.items() if file not in FROM_THE_PAGE])
def test_proof_names_its_command(begin: str) -> None:
    program, *words = begin.split()
    verbs = [word for word in words if re.fullmatch(r"[a-z][\w.-]*", word)]
    _, proof = RUN_BY[begin]
    if program == "make":
        assert verbs[0] in proof or any(f" {word}" in recipe(verbs[0]) for word in re.findall(r'"([a-z]+)"', proof))
    else:
        assert (verbs or words)[-1].rstrip("=") in proof


def recipe(target: str) -> str:
    """The first line of a target's recipe."""
    found = re.search(rf"^{target}:.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"no such target: {target}"
    return found[1]


def test_make_help_lists_the_targets() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, text=True, capture_output=True, check=True)
    assert {"demo", "test", "cluster"} <= {line.split()[0] for line in done.stdout.splitlines()}


def test_repository_of_a_bundled_task_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tasks.repository", "swe-rl__store-4", str(tmp_path / "repository")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "repository" / ".git").is_dir()


def imports(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Modules of this project that a program imports from, and the names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("swerl_agent"):
            yield str(node.module), [alias.name for alias in node.names]


def check(words: list[str], block: Block) -> None:
    check_command(words)
    words = list(words)
    while ASSIGNMENT.match(words[0]) and len(words) > 1:
        words.pop(0)
    if words[0] == "swerl":
        parse(words[1:])
    elif words[:3] == ["kubectl", "apply", "-f"]:
        assert (ROOT / words[3]).is_file(), f"no file {words[3]}"
    command = " ".join(words)
    if block.needs:
        begin = max((begin for begin in EXCUSED if command.startswith(begin)), key=len, default=None)
        assert begin and EXCUSED[begin] == block.needs, f"{block}: a test can run `{command}`; excuse only EXCUSED"
    else:
        prefix = max((begin for begin in RUN_BY if command.startswith(begin)), key=len, default=None)
        assert prefix, f"{block}: no test runs `{command}`; add one to RUN_BY, or to EXCUSED"
        file, proof = RUN_BY[prefix]
        assert proof in (ROOT / file).read_text(), f"{file} no longer runs `{prefix}`"


@cache
def options() -> frozenset[str]:
    """Options of our own programs, and those of others that pages name."""
    folders = ("agent", "operator", "trainer", "cluster", "images", "release", "tasks", "tests/gpu", "tests/bench")
    sources = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return frozenset(re.findall(r'"(--[a-z][a-z-]+)"', sources)) | {"--help", "--set", "--sandbox-limit"}
