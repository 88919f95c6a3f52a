"""The verbs and options of the programs that pages name, as the programs themselves have them.

Guarantees: a command with a misspelt verb or option fails. Options of kubectl and helm are checked where they are
installed; `make test` builds both first.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import click
from swerl_agent.cli import root

from cluster.__main__ import make_parser as cluster_parser
from images.__main__ import parse_options as parse_images
from release.__main__ import parse_options as parse_release

from .pages import ROOT

ASSIGNMENT = re.compile(r"^[A-Z_]+=")
OTHERS = {"kubectl", "helm", "uv"}  # they list their verbs and options with --help
PLUGINS = {"krew"}  # verbs of kubectl that it has only with a plugin
PARSERS: dict[str, Callable[[list[str]], object]] = {
    "cluster": lambda words: cluster_parser().parse_args(words),
    "images": parse_images,
    "release": parse_release,
}
FOLDERS = (".", "agent", "trainer", "operator", "crds")
LISTED = re.compile(r"^ +(-.*?)(?:  |$)", re.MULTILINE)  # the names of an option, in the output of --help
NAME = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
VERB = re.compile(r"^  ([a-z][\w-]*)  +\S", re.MULTILINE)


def check_command(words: Sequence[str]) -> None:
    """Fails the test when the program has no such verb, option, make target or variable."""
    words = list(_own(words))
    assigned = [word.partition("=")[0] for word in words if ASSIGNMENT.match(word)]
    words = [word for word in words if not ASSIGNMENT.match(word)]
    if words[:2] == ["kubectl", "swerl"]:
        words = words[1:]
    if not words or words[0] == "export":
        return
    if words[0] == "make":
        assert set(words[1:]) <= targets(), f"no such target: {shlex.join(words)}"
    elif words[:2] in (["python", "-m"], ["python3", "-m"]):
        _check_module(words[2], words[3:])
    elif words[0] == "swerl":
        check_swerl(words[1:])
    elif words[0] in OTHERS:
        _check_other(words)
    assert set(assigned) <= variables(), f"nothing reads one of {assigned}"


def check_swerl(words: list[str]) -> None:
    """Fails the test when `swerl` has no such verb, or the verb no such option; arguments may be missing."""
    command: click.Command = root
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        found = command.get_command(click.Context(command), word)
        assert found, f"no such command: swerl {shlex.join(words)}"
        command = found
    taken = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    _check_options(["swerl", *words], taken | {"--help", "--version"})


def _own(words: Sequence[str]) -> Iterator[str]:
    """Words of the first program alone: up to a pipe, a redirection or the command that it runs."""
    for word in words:
        if word in ("|", ">", "--"):
            return
        yield word


def _check_options(words: list[str], taken: set[str]) -> None:
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("--"):
            assert option in taken, f"no option {option}: {shlex.join(words)}"
        elif re.fullmatch(r"-[a-zA-Z]+", option):
            assert {f"-{letter}" for letter in option[1:]} <= taken, f"no option {option}: {shlex.join(words)}"


def _check_module(module: str, words: list[str]) -> None:
    """A module exists and takes these words; one without a parser has its options in its text."""
    if module == "swerl_agent.cli":
        check_swerl(words)
    elif parse := PARSERS.get(module):
        try:
            parse(words)
        except (SystemExit, argparse.ArgumentError):
            raise AssertionError(f"refused: python -m {module} {shlex.join(words)}") from None
    else:
        listed = _listed(_help(sys.executable, "-m", "pytest")) if module == "pytest" else _options_of(module)
        _check_options([module, *words], listed)


def _options_of(module: str) -> set[str]:
    """Options in the text of a module; `unittest` is Python's."""
    path = module.replace(".", "/")
    if module == "unittest":
        return set()
    names = [ROOT / folder / name for folder in FOLDERS for name in (f"{path}.py", f"{path}/__main__.py")]
    files = [file for file in names if file.is_file()]
    assert files, f"no module {module}"
    return {"--help"} | {found for file in files for found in re.findall(r'"(--?[a-z][a-z-]*)"', file.read_text())}


def _check_other(words: list[str]) -> None:
    """A program that lists its verbs and options; the verb is as deep as the program has lists of verbs."""
    program = _program(words[0])
    if not program:
        return
    verbs = list[str]()
    for word in words[1:]:
        known = set(VERB.findall(_help(program, *verbs))) if not verbs or _is_group(program, *verbs) else set()
        if not known or word.startswith("-"):
            break
        if not verbs and word in PLUGINS:
            return
        assert word in known, f"no verb {word}: {shlex.join(words)}"
        verbs.append(word)
    text = _help(program, *verbs) + (_output(program, "options") if words[0] == "kubectl" else "")
    _check_options(words, _listed(text))


def _listed(text: str) -> set[str]:
    """Options in the output of --help."""
    return {option for names in LISTED.findall(text) for option in NAME.findall(names)}


def _is_group(program: str, *verbs: str) -> bool:
    return bool(re.search(r"^(?:Available )?Commands:", _help(program, *verbs), re.MULTILINE))


def _program(name: str) -> str | None:
    beside = Path(sys.executable).parent / name  # uv
    return str(beside) if beside.is_file() else shutil.which(name)


def _help(program: str, *verbs: str) -> str:
    return _output(program, *verbs, "--help")


@cache
def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
    return done.stdout


@cache
def targets() -> frozenset[str]:
    """Targets of all makefiles."""
    return frozenset(re.findall(r"^([a-z0-9-]+):", _makefiles(), re.MULTILINE))


@cache
def variables() -> frozenset[str]:
    """Variables that a makefile or one of our programs reads."""
    folders = ("agent", "cluster", "demo", "images", "operator", "release", "tests", "trainer")
    sources = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return frozenset(re.findall(r"\$\(([A-Z][A-Z_]+)\)", _makefiles()) + re.findall(r'"([A-Z][A-Z_]+)"', sources))


@cache
def _makefiles() -> str:
    return "".join(path.read_text() for path in (ROOT / "Makefile", *ROOT.glob("*/*.mk")))
