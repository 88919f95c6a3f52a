"""`python3 -m demo.environment VENV REQUIREMENTS`: the light Python environment, from the standard library alone.

Guarantees: an environment whose pins did not change stays unchanged; an incomplete one is completed the next time;
a command started by any Python >= 3.11 re-executes itself in it at most once, and finds the project's packages.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.errors import PrerequisiteError
from cluster.layout import swerl_home
from cluster.preflight import install
from demo.cluster import ROOT

DIGEST_FILE = ".requirements"
SOURCES = [str(ROOT / folder) for folder in ("crds", "operator", "agent", "trainer", ".")]  # as in the Makefile


def enter_environment(module: str, arguments: Sequence[str]) -> None:
    """Re-execute as `python -m module` with these arguments in the light environment, which is created if it is
    missing; returns if this process already runs in it. Either way the packages of SOURCES can be imported. Raises
    SystemExit as `ensure` does."""
    home = swerl_home()
    venv = home / "venv"
    python = ensure(venv, ROOT / "requirements" / "dev.txt")
    for variable, folders in (("PATH", [str(home / "bin")]), ("PYTHONPATH", SOURCES)):
        present = os.environ.get(variable, "").split(os.pathsep)
        os.environ[variable] = os.pathsep.join(filter(None, [*_missing(folders, present), *present]))
    if Path(sys.prefix).resolve() == venv.resolve():
        sys.path[:0] = _missing(SOURCES, sys.path)
        return
    os.execv(python, [str(python), "-m", module, *arguments])


def _missing(folders: Sequence[str], present: Sequence[str]) -> list[str]:
    return [folder for folder in folders if folder not in present]


def ensure(venv: Path, requirements: Path, interpreter: str = sys.executable) -> Path:
    """Interpreter of an environment of `interpreter` that holds exactly the pins of `requirements`; raises SystemExit
    with the cause."""
    if sys.version_info < (3, 11):  # noqa: UP036
        raise SystemExit(f"Python {sys.version.split()[0]} is too old: swe-rl needs Python 3.11 or newer as `python3`")
    python = venv / "bin" / "python"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    digest_file = venv / DIGEST_FILE
    if python.exists() and digest_file.is_file() and digest_file.read_text() == digest:
        return python
    started = time.monotonic()
    print(f"  Python environment in {venv} ...", flush=True)
    if not python.exists():
        _make(interpreter, venv)
    if not (venv / "bin" / "uv").exists():
        _run([str(python), "-m", "pip", "install", "-q", "uv"])
    install_command = [str(venv / "bin" / "uv"), "pip", "install", "-q", "--no-deps", "--python", str(python)]
    _run([*install_command, "-r", str(requirements)])
    digest_file.write_text(digest)
    print(f"  Python environment ready in {time.monotonic() - started:.0f} s", flush=True)
    return python


def _make(interpreter: str, venv: Path) -> None:
    """Create the environment; Debian's Python needs the package python3-venv for it."""
    command = [interpreter, "-m", "venv", "--clear", str(venv)]
    try:
        _run(command)
    except SystemExit as failed:
        if "ensurepip" not in str(failed):
            raise
        print("  install python3-venv", flush=True)
        try:
            install(["python3-venv"])
        except PrerequisiteError as error:
            raise SystemExit(f"{error}\n{failed}") from error
        _run(command)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        hint = " (Debian: apt-get install python3-venv)" if "ensurepip" in done.stderr + done.stdout else ""
        raise SystemExit(f"`{' '.join(command)}` failed{hint}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    try:
        ensure(Path(sys.argv[1]), Path(sys.argv[2]))
    except KeyboardInterrupt:
        sys.exit("interrupted; run the same command to resume")
